//! Where everything is, for a terminal of any size. Pure arithmetic: what stands there is the views' business.

use ratatui::layout::Rect;

use super::panes::{Alone, Panes, TelemetryView, ThinkView};

/// The smallest terminal that the screen fits in.
pub const SMALLEST: (u16, u16) = (40, 10);

/// Columns of the sign in front of the message being written.
pub const PROMPT: usize = 2;

/// Rows that the message being written may take.
pub const MESSAGE_ROWS: usize = 8;

/// From this width on the telemetry stands at the side.
const WIDE: u16 = 120;

/// Rows of the conversation that stay when the reasoning takes all it can.
const RESPONSE_LEFT: u16 = 4;

/// Columns of the telemetry there, with its border.
const SIDE: u16 = 40;

/// What the state needs room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wants {
    /// Whether there is an alarm.
    pub alarm: bool,
    /// Rows of the hint.
    pub hint: usize,
    /// Rows of the message being written.
    pub message: usize,
    /// How much of each pane is to be shown.
    pub panes: Panes,
}

/// The parts of the screen. Those with a title have it in their first row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Areas {
    /// The alarm, without a title; empty when there is none.
    pub alarm: Rect,
    /// Reasoning; empty where there is no room.
    pub think: Rect,
    /// Conversation.
    pub response: Rect,
    /// What the program has to say, without a title.
    pub hint: Rect,
    /// The message being written.
    pub message: Rect,
    /// Telemetry: with a title at the side, else one or two rows without.
    pub telemetry: Rect,
    /// Whether it has room for everything: at the side, or in place of the conversation.
    pub side: bool,
    /// The status line.
    pub status: Rect,
}

/// Whether there is room at the side.
fn has_side((width, height): (u16, u16)) -> bool {
    width >= WIDE && height >= 20
}

/// Columns of everything but the side.
pub fn main_width(size: (u16, u16), panes: Panes) -> u16 {
    match has_side(size) && panes.telemetry == TelemetryView::Fits {
        true => size.0 - SIDE,
        false => size.0,
    }
}

/// The parts of a terminal of this size; None if it is too small.
pub fn areas(size: (u16, u16), wants: Wants) -> Option<Areas> {
    let (width, height) = size;
    if width < SMALLEST.0 || height < SMALLEST.1 {
        return None;
    }
    let main = main_width(size, wants.panes);
    let side = main < width;
    let telemetry = match (wants.panes.telemetry, side, width >= 80 && height >= 20) {
        (TelemetryView::Hidden | TelemetryView::All, ..) | (_, true, _) => 0,
        (_, _, true) => 2,
        (_, _, false) => 1,
    };
    let alarm = u16::from(wants.alarm);
    let status = 1;
    // The message never takes more than a third, the hint never the last rows of the conversation.
    let mut left = height - alarm - status - telemetry;
    let message = 1 + rows(wants.message).clamp(1, (left / 3).max(2) - 1);
    left -= message;
    let hint = rows(wants.hint).min(left.saturating_sub(3));
    left -= hint;
    let everything = wants.panes.telemetry == TelemetryView::All;
    let above = match everything {
        true => left,
        false => 0,
    };
    left -= above;
    let think = match (wants.panes.alone, wants.panes.think) {
        (Some(Alone::Think), _) => left,
        (Some(Alone::Response), _) => 0,
        (None, ThinkView::Line) => u16::from(left >= 5),
        (None, ThinkView::All) => left.saturating_sub(RESPONSE_LEFT),
        (None, ThinkView::Rows) => match left {
            0..5 => 0,
            5..12 => left / 3,
            _ => left * 2 / 5,
        },
    };
    let mut top = 0;
    let mut take = |rows: u16| {
        let area = Rect::new(0, top, main, rows);
        top += rows;
        area
    };
    let alarm = Rect {
        width,
        ..take(alarm)
    };
    let above = take(above);
    let think = take(think);
    let response = take(left - think.height);
    let hint = take(hint);
    let message = take(message);
    let below = take(telemetry);
    let status = Rect {
        width,
        ..take(status)
    };
    let telemetry = match (side, everything) {
        (true, _) => Rect::new(
            main,
            alarm.height,
            SIDE,
            height - alarm.height - status.height,
        ),
        (_, true) => above,
        _ => below,
    };
    let side = side || everything;
    Some(Areas {
        alarm,
        think,
        response,
        hint,
        message,
        telemetry,
        side,
        status,
    })
}

fn rows(rows: usize) -> u16 {
    u16::try_from(rows).unwrap_or(u16::MAX)
}

/// What an area has below its title.
pub fn body(area: Rect) -> Rect {
    let title = area.height.min(1);
    Rect {
        y: area.y + title,
        height: area.height - title,
        ..area
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CALM: Wants = Wants {
        alarm: false,
        hint: 0,
        message: 1,
        panes: Panes {
            think: ThinkView::Rows,
            telemetry: TelemetryView::Fits,
            alone: None,
        },
    };

    #[test]
    fn below_the_smallest_there_is_nothing() {
        assert_eq!(areas((39, 10), CALM), None);
        assert_eq!(areas((40, 9), CALM), None);
        assert!(areas((40, 10), CALM).is_some());
    }

    #[test]
    fn telemetry_stands_at_the_side_where_there_is_room() {
        let small = areas((80, 24), CALM).unwrap();
        assert_eq!((small.side, small.telemetry.height), (false, 2));
        let wide = areas((200, 60), CALM).unwrap();
        assert!(wide.side && wide.telemetry.x == wide.response.width);
        assert_eq!(areas((60, 20), CALM).unwrap().telemetry.height, 1);
    }

    #[test]
    fn panes_take_what_the_person_gives_them() {
        let with = |panes| areas((80, 24), Wants { panes, ..CALM }).unwrap();
        let calm = with(CALM.panes);
        let line = with(Panes {
            think: ThinkView::Line,
            ..CALM.panes
        });
        assert_eq!(line.think.height, 1);
        let all = with(Panes {
            think: ThinkView::All,
            ..CALM.panes
        });
        assert_eq!(all.response.height, RESPONSE_LEFT);
        let alone = with(Panes {
            alone: Some(Alone::Response),
            ..CALM.panes
        });
        assert_eq!(
            (alone.think.height, alone.response.height),
            (0, calm.think.height + calm.response.height)
        );
        let hidden = with(Panes {
            telemetry: TelemetryView::Hidden,
            ..CALM.panes
        });
        assert!(
            hidden.telemetry.is_empty()
                && hidden.response.height + hidden.think.height > alone.response.height
        );
        let full = with(Panes {
            telemetry: TelemetryView::All,
            ..CALM.panes
        });
        assert!(
            full.side
                && full.telemetry.height > 15
                && full.response.is_empty()
                && full.think.is_empty()
        );
        let wide = areas(
            (200, 60),
            Wants {
                panes: Panes {
                    telemetry: TelemetryView::Hidden,
                    ..CALM.panes
                },
                ..CALM
            },
        );
        assert_eq!(wide.unwrap().response.width, 200);
    }

    proptest! {
        #[test]
        fn parts_lie_inside_and_never_overlap(
            width in 40_u16..300, height in 10_u16..120, alarm: bool, hint in 0_usize..9, message in 0_usize..12,
            think in prop::sample::select(vec![ThinkView::Line, ThinkView::Rows, ThinkView::All]),
            telemetry in prop::sample::select(vec![TelemetryView::Fits, TelemetryView::All, TelemetryView::Hidden]),
            alone in prop::option::of(prop::sample::select(vec![Alone::Think, Alone::Response])),
        ) {
            let panes = Panes { think, telemetry, alone };
            let all = areas((width, height), Wants { alarm, hint, message, panes }).unwrap();
            let parts = [all.alarm, all.think, all.response, all.hint, all.message, all.telemetry, all.status];
            let screen = Rect::new(0, 0, width, height);
            let mut cells = 0;
            for (index, part) in parts.iter().enumerate() {
                prop_assert_eq!(part.intersection(screen).area(), part.area());
                cells += part.area();
                prop_assert!(parts[..index].iter().all(|other| other.intersection(*part).area() == 0));
            }
            prop_assert_eq!(cells, screen.area(), "all of the screen is used");
            prop_assert!(all.message.height >= 2);
            prop_assert!(alone.is_some() || telemetry == TelemetryView::All || all.response.height >= 3);
        }
    }
}
