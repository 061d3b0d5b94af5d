//! Where every routed expert stands: a table by layer and number, instead of half a million named tensors.

use super::config::Config;
use super::header::{Dtype, Entry, Shape};
use super::layout::ExpertLayout;
use super::names::ExpertPart;

/// Where an expert's six tensors are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpertAt {
    /// In one run, in canonical order, beginning at `offset` of the file: one read.
    Run {
        /// First byte in the file.
        offset: u64,
    },
    /// Apart or in another order: six reads.
    Parts {
        /// First byte in the file of each part, in the order of [`ExpertPart::ALL`].
        offsets: [u64; 6],
    },
}

/// Where an expert is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpertPlace {
    /// Number of the shard that holds all six tensors.
    pub shard: u16,
    /// Where in it.
    pub at: ExpertAt,
}

/// Why an expert's tensor cannot be entered.
#[derive(Debug, PartialEq)]
pub(super) enum Clash {
    /// It is entered already, from this shard.
    Twice(u16),
    /// Another tensor of the same expert is in this other shard.
    Apart(u16),
}

/// An expert's tensor whose type or shape is not what the configuration gives.
#[derive(Debug)]
pub(super) struct Misfit {
    pub layer: usize,
    pub expert: usize,
    pub part: ExpertPart,
    pub dtype: Dtype,
    pub shape: Shape,
}

/// Bits of [`Slot::seen`], one a part.
const ALL_SEEN: u8 = 0x3f;

/// What is known of one expert, in 16 bytes: there are 82,432 of them in the release.
#[derive(Clone, Copy, Default)]
struct Slot {
    /// First byte of the run in the file, or the number of the entry in `scattered`.
    at: u64,
    shard: u16,
    /// Which parts were seen.
    seen: u8,
    scattered: bool,
    misfit: bool,
}

/// All routed experts of a checkpoint.
pub(super) struct Experts {
    layout: ExpertLayout,
    first_layer: usize,
    per_layer: usize,
    /// By layer; empty until the layer's first expert is seen.
    layers: Vec<Vec<Slot>>,
    scattered: Vec<[u64; 6]>,
    misfits: Vec<Misfit>,
}

impl Experts {
    pub(super) fn new(config: &Config) -> Experts {
        Experts {
            layout: ExpertLayout::new(&config.moe),
            first_layer: config.dense_layers,
            per_layer: config.moe.experts,
            layers: vec![Vec::new(); config.layers()],
            scattered: Vec::new(),
            misfits: Vec::new(),
        }
    }

    pub(super) fn layout(&self) -> &ExpertLayout {
        &self.layout
    }

    pub(super) fn misfits(&self) -> &[Misfit] {
        &self.misfits
    }

    /// Whether the configuration has such an expert.
    pub(super) fn covers(&self, layer: usize, expert: usize) -> bool {
        (self.first_layer..self.layers.len()).contains(&layer) && expert < self.per_layer
    }

    /// Enters one tensor of an expert that the table covers. `offset` is its first byte in the file.
    pub(super) fn enter(
        &mut self,
        (layer, expert, part): (usize, usize, ExpertPart),
        shard: u16,
        offset: u64,
        entry: &Entry<'_>,
    ) -> Result<(), Clash> {
        let slots = &mut self.layers[layer];
        slots.resize(self.per_layer, Slot::default());
        let slot = &mut slots[expert];
        let bit = 1 << part as u8;
        if slot.seen & bit != 0 {
            return Err(Clash::Twice(slot.shard));
        }
        if slot.seen != 0 && slot.shard != shard {
            return Err(Clash::Apart(slot.shard));
        }
        let wanted = self.layout.part(part);
        if entry.dtype != Dtype::U8 || entry.shape.dims() != [wanted.rows, wanted.cols] {
            slot.misfit = true;
            self.misfits.push(Misfit {
                layer,
                expert,
                part,
                dtype: entry.dtype,
                shape: entry.shape,
            });
        }

        let run = offset.checked_sub(wanted.offset);
        if slot.seen == 0 {
            slot.shard = shard;
            slot.at = run.unwrap_or_default();
        }
        if !slot.scattered && run != Some(slot.at) {
            let layout = &self.layout;
            let at = slot.at;
            // The parts seen so far were where the run had them; the others are entered as they come.
            let offsets = ExpertPart::ALL.map(|part| at.wrapping_add(layout.part(part).offset));
            slot.scattered = true;
            slot.at = self.scattered.len() as u64;
            self.scattered.push(offsets);
        }
        if slot.scattered {
            self.scattered[slot.at as usize][part as usize] = offset;
        }
        slot.seen |= bit;
        Ok(())
    }

    fn slot(&self, layer: usize, expert: usize) -> Slot {
        self.layers
            .get(layer)
            .and_then(|slots| slots.get(expert))
            .copied()
            .unwrap_or_default()
    }

    /// The first part that was not seen, if any.
    pub(super) fn missing_part(&self, layer: usize, expert: usize) -> Option<ExpertPart> {
        let seen = self.slot(layer, expert).seen;
        ExpertPart::ALL
            .into_iter()
            .find(|&part| seen & (1 << part as u8) == 0)
    }

    /// Where an expert is; `None` unless all six tensors are there with the right types and shapes.
    pub(super) fn place(&self, layer: usize, expert: usize) -> Option<ExpertPlace> {
        let slot = self.slot(layer, expert);
        if slot.seen != ALL_SEEN || slot.misfit {
            return None;
        }
        let at = if slot.scattered {
            ExpertAt::Parts {
                offsets: self.scattered[slot.at as usize],
            }
        } else {
            ExpertAt::Run { offset: slot.at }
        };
        Some(ExpertPlace {
            shard: slot.shard,
            at,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_takes_16_bytes() {
        assert_eq!(size_of::<Slot>(), 16);
    }
}
