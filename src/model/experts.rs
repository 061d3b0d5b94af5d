//! The routed experts of a layer over a chunk of tokens: each is used once, whatever the number of tokens.

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::compute::Product;
use super::{Compute, Error};
use crate::checkpoint::config::{Config, Situ};
use crate::kernels::{self, Choice, Results, Tokens};
use crate::stream::{ExpertWeights, Experts, Kernel, Wanted};

/// One expert's part of a chunk.
struct Share {
    /// Tokens that chose it, and their weights, in ascending token.
    tokens: Vec<(usize, f32)>,
    /// Its place in the choice of the last of them, 0 the best.
    rank: usize,
}

/// Which tokens go through which expert, experts in ascending number.
pub(super) struct Dispatch {
    tokens: usize,
    shares: BTreeMap<usize, Share>,
}

impl Dispatch {
    /// From each token's choices, best first.
    pub(super) fn new(choices: &[Vec<Choice>]) -> Self {
        let mut shares = BTreeMap::new();
        for (token, choices) in choices.iter().enumerate() {
            for (rank, choice) in choices.iter().enumerate() {
                let share = shares.entry(choice.expert).or_insert(Share {
                    tokens: Vec::new(),
                    rank,
                });
                share.tokens.push((token, choice.weight));
                share.rank = rank;
            }
        }
        Self {
            tokens: choices.len(),
            shares,
        }
    }

    /// What to ask the store for.
    pub(super) fn wanted(&self) -> Vec<Wanted> {
        self.shares
            .iter()
            .map(|(&expert, share)| Wanted {
                expert,
                rank: share.rank,
                ago: share
                    .tokens
                    .last()
                    .map_or(0, |&(token, _)| self.tokens - 1 - token),
            })
            .collect()
    }

    /// The weighted sum over the requested experts, `[tokens][latent]`, in ascending expert number for every token,
    /// whatever the order in which they arrive. `z` is `[tokens][latent]`.
    pub(super) fn sum(
        &self,
        compute: &Compute,
        experts: &mut dyn Experts,
        config: &Config,
        z: &[f32],
    ) -> Result<Vec<f32>, Error> {
        let latent = config.moe.latent;
        let shares: Vec<&Share> = self.shares.values().collect();
        let inputs: Vec<Vec<f32>> = shares
            .par_iter()
            .map(|s| {
                let tokens = s.tokens.iter().map(|&(t, _)| &z[t * latent..][..latent]);
                tokens.collect::<Vec<_>>().concat()
            })
            .collect();
        let mut sum = vec![0.0; z.len()];
        // Results of experts that came before a lower-numbered one.
        let mut early: BTreeMap<usize, Vec<f32>> = BTreeMap::new();
        let mut next = 0;
        while let Some(arrived) = experts.arrived()? {
            let products = || outputs(compute, config, &arrived, &inputs);
            early.extend(compute.meter.time(Kernel::Experts, products));
            while let Some(output) = early.remove(&next) {
                for (&(token, weight), output) in
                    shares[next].tokens.iter().zip(output.chunks_exact(latent))
                {
                    let sum = &mut sum[token * latent..][..latent];
                    kernels::add_scaled(compute.isa, sum, weight, output);
                }
                next += 1;
            }
        }
        debug_assert_eq!(next, shares.len());
        Ok(sum)
    }
}

/// `w2 situ(w1 z, w3 z)` of several experts at once, each `[its tokens][latent]`.
fn outputs(
    compute: &Compute,
    config: &Config,
    arrived: &[(usize, ExpertWeights<'_>)],
    inputs: &[Vec<f32>],
) -> Vec<(usize, Vec<f32>)> {
    let (latent, inner) = (config.moe.latent, config.moe.inner);
    let inputs: Vec<Tokens<'_>> = arrived
        .par_iter()
        .map(|(i, _)| Tokens::new(&inputs[*i], latent))
        .collect();
    let mut expanded: Vec<[Vec<f32>; 2]> = inputs
        .iter()
        .map(|x| [vec![0.0; x.count() * inner], vec![0.0; x.count() * inner]])
        .collect();
    let both = arrived.iter().zip(&inputs).zip(&mut expanded);
    compute.multiply(both.flat_map(|(((_, expert), x), [gate, up])| {
        [(expert.gate, gate), (expert.up, up)].map(|(weights, y)| Product {
            weights,
            x,
            y: Results::new(y, x.count()),
        })
    }));

    let Situ { beta, linear_beta } = config.situ;
    let hidden: Vec<Tokens<'_>> = expanded
        .par_iter_mut()
        .map(|[gate, up]| {
            kernels::situ(compute.isa, gate, up, beta, linear_beta);
            Tokens::new(gate, inner)
        })
        .collect();
    let mut outputs: Vec<(usize, Vec<f32>)> = arrived
        .iter()
        .zip(&inputs)
        .map(|((i, _), x)| (*i, vec![0.0; x.count() * latent]))
        .collect();
    let down = arrived.iter().zip(&hidden).zip(&mut outputs);
    compute.multiply(down.map(|(((_, expert), x), (_, y))| Product {
        weights: expert.down,
        x,
        y: Results::new(y, x.count()),
    }));
    outputs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_hears_of_the_last_token_that_chose_an_expert() {
        let choices: Vec<Vec<Choice>> = [[7, 2], [3, 7], [2, 5]]
            .iter()
            .map(|token| {
                token
                    .map(|expert| Choice {
                        expert,
                        weight: 0.5,
                    })
                    .to_vec()
            })
            .collect();
        let wanted = Dispatch::new(&choices).wanted();
        let told: Vec<_> = wanted.iter().map(|w| (w.expert, w.rank, w.ago)).collect();
        assert_eq!(told, [(2, 0, 0), (3, 0, 1), (5, 1, 0), (7, 1, 1)]);
    }
}
