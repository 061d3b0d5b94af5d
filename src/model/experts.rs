//! The routed experts of a layer over a chunk of tokens: each is used once, whatever the number of tokens.

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::compute::Product;
use super::dense::situ;
use super::{Compute, Error};
use crate::checkpoint::config::Config;
use crate::kernels::{self, Choice, Results, Tokens};
use crate::stream::{ExpertWeights, Experts, Kernel, Space, Wanted};

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
    ) -> Result<Space, Error> {
        let latent = config.moe.latent;
        let shares: Vec<&Share> = self.shares.values().collect();
        let counts: Vec<usize> = shares.iter().map(|share| share.tokens.len()).collect();
        // Of each share its tokens, one behind the other.
        let choices: usize = counts.iter().sum();
        let (mut inputs, mut outputs) = (
            compute.space(choices * latent)?,
            compute.space(choices * latent)?,
        );
        let mut inputs = parts(&mut inputs, &counts, latent);
        shares
            .par_iter()
            .zip(&mut inputs)
            .for_each(|(share, input)| {
                let rows = input.chunks_exact_mut(latent);
                for (&(token, _), row) in share.tokens.iter().zip(rows) {
                    row.copy_from_slice(&z[token * latent..][..latent]);
                }
            });
        let mut places: Vec<Option<&mut [f32]>> = parts(&mut outputs, &counts, latent)
            .into_iter()
            .map(Some)
            .collect();
        let mut outputs: Vec<Option<&[f32]>> = vec![None; shares.len()];
        let mut sum = compute.space(z.len())?;
        sum.fill(0.0);
        let mut next = 0;
        while let Some(arrived) = experts.arrived()? {
            let mut products: Vec<Expert<'_, '_>> = arrived
                .into_iter()
                .filter_map(|(share, weights)| {
                    Some(Expert {
                        share,
                        weights,
                        x: inputs[share],
                        y: places[share].take()?,
                    })
                })
                .collect();
            compute
                .meter
                .time(Kernel::Experts, || multiply(compute, config, &mut products))?;
            for Expert { share, y, .. } in products {
                outputs[share] = Some(y);
            }
            // Experts that came before a lower-numbered one wait for it.
            while let Some(Some(output)) = outputs.get(next) {
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

/// An expert that arrived, with its tokens.
struct Expert<'w, 'a> {
    /// Its place among the shares.
    share: usize,
    weights: ExpertWeights<'w>,
    /// `[its tokens][latent]`.
    x: &'a [f32],
    /// `[its tokens][latent]`.
    y: &'a mut [f32],
}

/// The first of them has `counts[0]` rows of `width`, and so on.
fn parts<'a>(mut all: &'a mut [f32], counts: &[usize], width: usize) -> Vec<&'a mut [f32]> {
    let part = |count: &usize| {
        let (part, behind) = std::mem::take(&mut all).split_at_mut(count * width);
        all = behind;
        part
    };
    counts.iter().map(part).collect()
}

/// `y = w2 situ(w1 x, w3 x)` of several experts at once.
fn multiply(
    compute: &Compute,
    config: &Config,
    experts: &mut [Expert<'_, '_>],
) -> Result<(), Error> {
    let (latent, inner) = (config.moe.latent, config.moe.inner);
    let counts: Vec<usize> = experts.iter().map(|e| e.x.len() / latent).collect();
    let tokens: usize = counts.iter().sum();
    let room = |columns: usize| {
        let rooms: Vec<usize> = counts.iter().map(|n| Tokens::room(*n, columns)).collect();
        Ok::<_, Error>((compute.space(rooms.iter().sum())?, rooms))
    };
    let (mut gate, mut up) = (
        compute.space(tokens * inner)?,
        compute.space(tokens * inner)?,
    );
    let (mut space, rooms) = room(latent)?;
    let x: Vec<Tokens<'_>> = experts
        .par_iter()
        .zip(parts(&mut space, &rooms, 1))
        .map(|(expert, room)| Tokens::placed_in(expert.x, latent, room))
        .collect();
    let gates = parts(&mut gate, &counts, inner);
    let ups = parts(&mut up, &counts, inner);
    let both = experts.iter().zip(&x).zip(gates).zip(ups);
    compute.multiply(both.flat_map(|(((expert, x), gate), up)| {
        [(expert.weights.gate, gate), (expert.weights.up, up)].map(|(weights, y)| Product {
            weights,
            x,
            y: Results::new(y, x.count()),
        })
    }));
    drop(x);
    drop(space);

    situ(compute, &mut gate, &up, config.situ);
    drop(up);
    let (mut space, rooms) = room(inner)?;
    let hidden: Vec<Tokens<'_>> = parts(&mut gate, &counts, inner)
        .into_par_iter()
        .zip(parts(&mut space, &rooms, 1))
        .map(|(gate, room)| Tokens::placed_in(gate, inner, room))
        .collect();
    let down = experts.iter_mut().zip(&hidden);
    compute.multiply(down.map(|(expert, x)| Product {
        weights: expert.weights.down,
        x,
        y: Results::new(expert.y, x.count()),
    }));
    Ok(())
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
