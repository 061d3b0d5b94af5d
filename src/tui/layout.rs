//! Where everything is, for a terminal of any size. Pure arithmetic: what stands there is the views' business.

use ratatui::layout::Rect;

/// The smallest terminal that the screen fits in.
pub const SMALLEST: (u16, u16) = (40, 10);

/// Columns of the sign in front of the message being written.
pub const PROMPT: usize = 2;

/// Rows that the message being written may take.
pub const MESSAGE_ROWS: usize = 8;

/// From this width on the telemetry stands at the side.
const WIDE: u16 = 120;

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
    /// Whether it stands at the side.
    pub side: bool,
    /// The status line.
    pub status: Rect,
}

/// Whether there is room at the side.
fn has_side((width, height): (u16, u16)) -> bool {
    width >= WIDE && height >= 20
}

/// Columns of everything but the side.
pub fn main_width(size: (u16, u16)) -> u16 {
    match has_side(size) {
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
    let side = has_side(size);
    let main = main_width(size);
    let telemetry = match (side, width >= 80 && height >= 20) {
        (true, _) => 0,
        (_, true) => 2,
        (_, false) => 1,
    };
    let alarm = u16::from(wants.alarm);
    let status = 1;
    // The message never takes more than a third, the hint never the last rows of the conversation.
    let mut left = height - alarm - status - telemetry;
    let message = 1 + rows(wants.message).clamp(1, (left / 3).max(2) - 1);
    left -= message;
    let hint = rows(wants.hint).min(left.saturating_sub(3));
    left -= hint;
    let think = match left {
        0..5 => 0,
        5..12 => left / 3,
        _ => left * 2 / 5,
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
    let think = take(think);
    let response = take(left - think.height);
    let hint = take(hint);
    let message = take(message);
    let below = take(telemetry);
    let status = Rect {
        width,
        ..take(status)
    };
    let telemetry = match side {
        true => Rect::new(
            main,
            alarm.height,
            SIDE,
            height - alarm.height - status.height,
        ),
        false => below,
    };
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

    proptest! {
        #[test]
        fn parts_lie_inside_and_never_overlap(
            width in 40_u16..300, height in 10_u16..120, alarm: bool, hint in 0_usize..9, message in 0_usize..12,
        ) {
            let all = areas((width, height), Wants { alarm, hint, message }).unwrap();
            let parts = [all.alarm, all.think, all.response, all.hint, all.message, all.telemetry, all.status];
            let screen = Rect::new(0, 0, width, height);
            let mut cells = 0;
            for (index, part) in parts.iter().enumerate() {
                prop_assert_eq!(part.intersection(screen).area(), part.area());
                cells += part.area();
                prop_assert!(parts[..index].iter().all(|other| other.intersection(*part).area() == 0));
            }
            prop_assert_eq!(cells, screen.area(), "all of the screen is used");
            prop_assert!(all.response.height >= 3 && all.message.height >= 2);
        }
    }
}
