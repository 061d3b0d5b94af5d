//! The preset `auto`: budgets that suit a machine. Trunk first, then cache, within the share of memory that is safe.

use super::machine::Machine;
use super::plan::{Request, lay_out, left_for_chunk};
use super::preset::Budgets;
use super::shape::Shape;

/// Of all memory, while the trunk streams. Beyond it the system begins to take pages back and reads slow down: 51 GB
/// pinned on a machine that they nearly filled was slower than none.
const STREAMING_PERCENT: u64 = 55;
/// Of all memory, when nothing of the trunk is read any more. Swapping was seen to begin at 81 %; "available less a few
/// GB" is no limit, since what is available is overcommitted: it restarted a machine of 128 GiB.
const RESIDENT_PERCENT: u64 = 72;
/// Of what is available, in either case: others want to grow too.
const AVAILABLE_PERCENT: u64 = 90;

/// Budgets for a machine; the smallest where its memory is not known. A budget that was asked for is taken as it is.
pub(super) fn budgets(shape: &Shape, request: &Request, machine: &Machine) -> Budgets {
    let (Some(total), Some((available, _))) = (machine.total(), machine.available()) else {
        return Budgets {
            trunk: request.trunk.unwrap_or(0),
            cache: request.cache.unwrap_or(0),
        };
    };
    let share = |percent: u64| (total / 100 * percent).min(available / 100 * AVAILABLE_PERCENT);

    // Two layers of a token's experts: one is computed while the other is read.
    let two_layers = shape.store(2 * shape.top_k);
    // What has no budget. Intermediate results are largest with many expert slots.
    let many = Budgets {
        trunk: 0,
        cache: two_layers,
    };
    let least = lay_out(shape, request, many);
    let fixed = least.total() - least.parts.ring - least.parts.pinned - least.parts.experts;

    let room = |percent| {
        let room = share(percent).saturating_sub(fixed);
        room - left_for_chunk(shape, room)
    };
    let resident = room(RESIDENT_PERCENT);
    let cache = request
        .cache
        .unwrap_or(two_layers.min(shape.store(shape.experts)));
    if request.trunk.is_none_or(|trunk| trunk >= shape.walk())
        && shape.walk().saturating_add(cache) <= resident
    {
        return Budgets {
            trunk: shape.walk(),
            cache: request.cache.unwrap_or(resident - shape.walk()),
        };
    }
    let room = room(STREAMING_PERCENT);
    // On a machine where two layers of experts would take most of it, the trunk still gets the larger part.
    let cache = request.cache.unwrap_or(two_layers.min(room / 4));
    Budgets {
        trunk: request.trunk.unwrap_or(room.saturating_sub(cache)),
        cache,
    }
}
