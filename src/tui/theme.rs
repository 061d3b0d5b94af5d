//! What things look like, by what they are. Only the sixteen colours of the terminal on its own background, so that light
//! and dark ones both read; never by colour alone, so that none is needed.

use ratatui::style::{Color, Modifier, Style};

use super::log::Kind;

/// What a piece of the screen is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Text.
    Plain,
    /// What may be overlooked.
    Quiet,
    /// The name of a pane.
    Title,
    /// The name of the pane that has the keys.
    Focus,
    /// A figure or word that stands out.
    Strong,
    /// What may not be overlooked.
    Alarm,
    /// The person's own words.
    User,
    /// The chosen one of a list.
    Chosen,
}

/// The looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// With the terminal's colours.
    #[default]
    Ansi,
    /// Without any.
    Mono,
}

impl Theme {
    /// The look of a role.
    pub fn style(self, role: Role) -> Style {
        let (modifier, colour) = match role {
            Role::Plain => (Modifier::empty(), None),
            Role::Quiet => (Modifier::DIM, None),
            Role::Title => (Modifier::empty(), Some(Color::Cyan)),
            Role::Focus => (Modifier::BOLD, Some(Color::Cyan)),
            Role::Strong => (Modifier::BOLD, None),
            Role::Alarm => (Modifier::BOLD.union(Modifier::REVERSED), Some(Color::Red)),
            Role::User => (Modifier::BOLD, Some(Color::Green)),
            Role::Chosen => (Modifier::REVERSED, None),
        };
        let style = Style::new().add_modifier(modifier);
        match (self, colour) {
            (Self::Ansi, Some(colour)) => style.fg(colour),
            _ => style,
        }
    }

    /// The look of a block of a log.
    pub fn block(self, kind: Kind) -> Style {
        self.style(match kind {
            Kind::User => Role::User,
            Kind::Answer | Kind::Think => Role::Plain,
            Kind::Tools | Kind::Heading | Kind::Notice => Role::Quiet,
            Kind::Alarm => Role::Alarm,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mono_has_no_colour_and_ansi_no_background() {
        for role in [
            Role::Plain,
            Role::Quiet,
            Role::Title,
            Role::Focus,
            Role::Strong,
            Role::Alarm,
            Role::User,
            Role::Chosen,
        ] {
            assert_eq!(Theme::Mono.style(role).fg, None);
            let style = Theme::Ansi.style(role);
            assert_eq!(style.bg, None);
            assert!(!matches!(
                style.fg,
                Some(Color::White | Color::Black | Color::Yellow | Color::Rgb(..))
            ));
            assert_eq!(style.add_modifier, Theme::Mono.style(role).add_modifier);
        }
    }
}
