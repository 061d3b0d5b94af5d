//! The router's choice of experts for one token.

use super::Isa;
use super::elementary::sigmoid;

kernel! {
    fn sigmoids(values: &mut [f32]) = sigmoids_body;
}

#[inline(always)]
fn sigmoids_body(values: &mut [f32]) {
    for v in values {
        *v = sigmoid(*v);
    }
}

/// An expert chosen for a token, and its weight in the sum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// Expert number.
    pub expert: usize,
    /// Factor on the expert's output.
    pub weight: f32,
}

/// Chooses `top_k` experts by `sigmoid(logit) + bias`, best first; of equal ones the lowest number, and a NaN never.
/// The weights are the sigmoids without the bias, divided by their sum (+ 1e-20) if `renormalize` and more than one is
/// chosen, then times `scaling`. Too few comparable scores give fewer choices than asked.
pub fn route(
    isa: Isa,
    logits: &[f32],
    bias: &[f32],
    top_k: usize,
    renormalize: bool,
    scaling: f32,
) -> Vec<Choice> {
    let mut scores = logits.to_vec();
    sigmoids(isa, &mut scores);
    let mut left: Vec<f32> = scores.iter().zip(bias).map(|(s, b)| s + b).collect();
    let mut chosen = Vec::with_capacity(top_k);
    for _ in 0..top_k {
        let Some(expert) = super::argmax(&left) else {
            break;
        };
        if left[expert] == f32::NEG_INFINITY {
            break;
        }
        left[expert] = f32::NEG_INFINITY;
        chosen.push(Choice {
            expert,
            weight: scores[expert],
        });
    }
    if renormalize && top_k > 1 {
        let sum: f32 = chosen.iter().map(|c| c.weight).sum();
        let inverse = 1.0 / (sum + 1e-20);
        for c in &mut chosen {
            c.weight *= inverse;
        }
    }
    for c in &mut chosen {
        c.weight *= scaling;
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experts(choices: &[Choice]) -> Vec<usize> {
        choices.iter().map(|c| c.expert).collect()
    }

    #[test]
    fn the_bias_chooses_and_the_score_weighs() {
        let chosen = route(
            Isa::detect(),
            &[0.0, 0.0, 2.0],
            &[0.5, 0.0, -1.0],
            2,
            false,
            2.0,
        );
        assert_eq!(experts(&chosen), [0, 1]);
        assert_eq!(chosen[0].weight, 1.0);
    }

    #[test]
    fn ties_go_to_the_lowest_number() {
        assert_eq!(
            experts(&route(
                Isa::detect(),
                &[0.0, 1.0, 1.0, 1.0],
                &[0.0; 4],
                2,
                true,
                1.0
            )),
            [1, 2]
        );
    }

    #[test]
    fn one_expert_is_never_renormalised() {
        let chosen = route(Isa::detect(), &[0.0, -1.0], &[0.0; 2], 1, true, 2.5);
        assert_eq!(
            chosen,
            [Choice {
                expert: 0,
                weight: 1.25
            }]
        );
        let two = route(Isa::detect(), &[0.0, 0.0, -9.0], &[0.0; 3], 2, true, 2.5);
        assert_eq!(two[0].weight, 1.25);
    }

    #[test]
    fn a_nan_is_never_chosen() {
        assert_eq!(
            experts(&route(
                Isa::detect(),
                &[f32::NAN, 0.0],
                &[0.0; 2],
                2,
                true,
                1.0
            )),
            [1]
        );
    }
}
