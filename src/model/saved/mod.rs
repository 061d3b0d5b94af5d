//! State files: what a network carries, on disk, so that what it has read need not be read again. The format and what is
//! refused; when states are saved, and which, is decided elsewhere. `docs/files.md` describes the file.

mod error;
mod head;
mod key;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub use error::{StateFileError, Unfit};
pub use key::ModelKey;
pub use read::SavedState;
pub use write::{StateWriter, UNFINISHED};

use super::{LayerState, State};

/// Bytes of values that are on their way at once.
const PORTION: usize = 1 << 20;

/// The values of a state in the order of the file: layer by layer, of a KDA layer the recurrent state and the histories of
/// q, k and v, of an MLA layer the rows in use.
fn values(state: &State) -> impl Iterator<Item = &[f32]> {
    state.layers.iter().flat_map(|layer| match layer {
        LayerState::Kda(kda) => {
            let [q, k, v] = &kda.history;
            vec![&kda.recurrent[..], q, k, v]
        }
        LayerState::Mla(cache) => vec![&cache.rows[..]],
    })
}

/// The same, to be filled in.
fn values_mut(state: &mut State) -> impl Iterator<Item = &mut [f32]> {
    state.layers.iter_mut().flat_map(|layer| match layer {
        LayerState::Kda(kda) => {
            let [q, k, v] = &mut kda.history;
            vec![&mut kda.recurrent[..], q, k, v]
        }
        LayerState::Mla(cache) => vec![&mut cache.rows[..]],
    })
}
