//! The layers side by side: above, the time that the last pass took in each, underlined where all of it is pinned; below,
//! how many of ten experts it did not have to read. A dot is a gap. And the same as a table.

use super::super::super::figures::{UNKNOWN, brief, count, share};
use super::super::super::theme::Role;
use super::chart::{GAP, Ink, level};
use super::row::{Piece, Row};
use crate::engine::telemetry::LayerFigures;

/// The strip at a width, with its heading; nothing where nothing is known.
pub fn rows(layers: &[LayerFigures], ink: Ink, columns: usize) -> Vec<Row> {
    if layers.is_empty() || columns == 0 {
        return Vec::new();
    }
    let mut rows = vec![Row::text("layers: time, retained of ten", Role::Quiet)];
    let slowest = layers
        .iter()
        .filter_map(|layer| layer.time)
        .map(|(time, _)| time.as_secs_f64())
        .fold(0.0, f64::max);
    for some in layers.chunks(columns) {
        let above = some.iter().map(|layer| Piece {
            underlined: layer.pinned.is_some_and(|share| share >= 1.0),
            ..Piece::new(time(layer, slowest, ink), Role::Plain)
        });
        rows.push(Row::pieces(above.collect()));
        let below = some.iter().map(|layer| match layer.drops {
            0 => Piece::new(experts(layer), Role::Plain),
            _ => Piece::new("!", Role::Alarm),
        });
        rows.push(Row::pieces(below.collect()));
    }
    rows
}

/// A bar as high as the layer's time is of the slowest's.
fn time(layer: &LayerFigures, slowest: f64, ink: Ink) -> char {
    let time = layer.time.map(|(time, _)| time.as_secs_f64());
    level(time, slowest, ink)
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

/// A row for each layer, with its heading.
pub fn table(layers: &[LayerFigures]) -> Vec<Row> {
    let head = "layer   time   waited retained pinned";
    let row = |(index, layer): (usize, &LayerFigures)| {
        let known = |text: Option<String>| text.unwrap_or_else(|| UNKNOWN.to_owned());
        let took = known(layer.time.map(|(time, _)| brief(time)));
        let waited = known(layer.time.map(|(_, waited)| brief(waited)));
        let retained = known(layer.last.map(|(requested, retained)| {
            format!("{}/{}", count(retained as usize), count(requested as usize))
        }));
        let pinned = share(layer.pinned).replace(".0 ", " ");
        let text = format!("{index:>5} {took:>7} {waited:>7} {retained:>7} {pinned:>7}");
        match layer.drops {
            0 => Row::text(text, Role::Plain),
            drops => Row::text(format!("{text} !{drops}"), Role::Alarm),
        }
    };
    let rows = layers.iter().enumerate().map(row);
    std::iter::once(Row::text(head, Role::Quiet))
        .chain(rows)
        .collect()
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
            [1, 500, 1000].map(|ms| time(&took(ms), 1.0, Ink::Blocks)),
            ['▁', '▄', '█']
        );
        assert_eq!(time(&layer(None), 1.0, Ink::Blocks), '·');
    }

    #[test]
    fn a_dropped_expert_is_an_alarm_in_both_forms() {
        let layers = vec![
            LayerFigures {
                drops: 2,
                ..LayerFigures::default()
            };
            2
        ];
        let alarm = Piece::new("!", Role::Alarm);
        let strip = rows(&layers, Ink::Blocks, 40);
        assert_eq!(strip[2], Row::pieces(vec![alarm.clone(), alarm]));
        let text = format!("{:?}", table(&layers)[1]);
        assert!(text.contains("!2") && text.contains("Alarm"), "{text}");
        assert_eq!(rows(&[], Ink::Blocks, 40), []);
    }
}
