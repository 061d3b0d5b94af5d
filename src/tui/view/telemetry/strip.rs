//! The layers side by side: above, the time that the last pass took in each, underlined where all of it is pinned; below,
//! how many of ten experts it did not have to read. A dot is a gap.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Modifier;

use super::super::super::state::State;
use super::super::super::theme::Role;
use super::super::put;
use crate::engine::telemetry::LayerFigures;

const GAP: char = '·';
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws as many rows of layers as there is room for, below a blank row.
pub fn view(state: &State, frame: &mut Frame, area: Rect) {
    let layers = &state.telemetry.layers;
    if layers.is_empty() || area.width == 0 {
        return;
    }
    let mut rows = area.rows().skip(1);
    if let Some(row) = rows.next() {
        put(
            state,
            frame,
            row,
            "layers: time, retained of ten",
            Role::Quiet,
        );
    }
    let slowest = layers
        .iter()
        .filter_map(|layer| layer.time)
        .map(|(time, _)| time.as_secs_f64())
        .fold(0.0, f64::max);
    for some in layers.chunks(usize::from(area.width)) {
        let (Some(above), Some(below)) = (rows.next(), rows.next()) else {
            return;
        };
        let times: String = some.iter().map(|layer| time(layer, slowest)).collect();
        put(state, frame, above, &times, Role::Plain);
        for (column, layer) in above.columns().zip(some) {
            if layer.pinned.is_some_and(|share| share >= 1.0)
                && let Some(cell) = frame.buffer_mut().cell_mut((column.x, column.y))
            {
                cell.modifier.insert(Modifier::UNDERLINED);
            }
        }
        let experts: String = some.iter().map(experts).collect();
        put(state, frame, below, &experts, Role::Plain);
        for (column, layer) in below.columns().zip(some) {
            if layer.drops > 0 {
                put(state, frame, column, "!", Role::Alarm);
            }
        }
    }
}

/// A bar as high as the layer's time is of the slowest's.
fn time(layer: &LayerFigures, slowest: f64) -> char {
    match layer.time {
        Some((time, _)) if slowest > 0.0 => {
            let eighths = time.as_secs_f64() / slowest * BARS.len() as f64;
            BARS[(eighths.ceil() as usize).clamp(1, BARS.len()) - 1]
        }
        _ => GAP,
    }
}

/// Tenths that were retained, `*` for all.
fn experts(layer: &LayerFigures) -> char {
    match layer.last {
        Some((requested, retained)) if requested > 0 && retained >= requested => '*',
        Some((requested, retained)) if requested > 0 => {
            let tenths = (retained * 10 / requested).min(9) as u8;
            char::from(b'0' + tenths)
        }
        _ => GAP,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_a_layer_did_is_one_character() {
        let layer = |last| LayerFigures {
            last,
            ..LayerFigures::default()
        };
        let shown = [
            None,
            Some((16, 0)),
            Some((16, 8)),
            Some((16, 15)),
            Some((16, 16)),
        ]
        .map(|last| experts(&layer(last)));
        assert_eq!(shown, ['·', '0', '5', '9', '*']);
        let took = |ms| LayerFigures {
            time: Some((Duration::from_millis(ms), Duration::ZERO)),
            ..LayerFigures::default()
        };
        assert_eq!(
            [1, 500, 1000].map(|ms| time(&took(ms), 1.0)),
            ['▁', '▄', '█']
        );
        assert_eq!(time(&layer(None), 1.0), '·');
    }
}
