//! What things look like, by what they are. Only the sixteen colours of the terminal on its own background, so that light
//! and dark ones both read; never by colour alone, so that none is needed.

use ratatui::style::{Color, Modifier, Style};

use super::log::Kind;
use super::markdown::{Look, Part};

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
    /// Code in an answer.
    Code,
    /// A heading in an answer.
    Heading,
}

/// The looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// Colours that read on dark and on light.
    #[default]
    Auto,
    /// Bright colours, for a dark background.
    Dark,
    /// Dark colours, for a light background.
    Light,
    /// Nothing faint, nothing coloured but alarms.
    Contrast,
    /// Without any colour.
    Mono,
}

impl std::str::FromStr for Theme {
    type Err = String;
    fn from_str(word: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|theme| theme.name() == word)
            .ok_or_else(|| {
                let names = Self::ALL.map(Self::name).join(", ");
                format!("unknown theme {word:?}, expected one of {names}")
            })
    }
}

impl Theme {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Auto,
        Self::Dark,
        Self::Light,
        Self::Contrast,
        Self::Mono,
    ];

    /// Its name in commands and settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Dark => "dark",
            Self::Light => "light",
            Self::Contrast => "contrast",
            Self::Mono => "mono",
        }
    }

    /// The look of a role.
    pub fn style(self, role: Role) -> Style {
        let modifier = match role {
            Role::Plain | Role::Title | Role::Code => Modifier::empty(),
            Role::Quiet if self == Self::Contrast => Modifier::empty(),
            Role::Quiet => Modifier::DIM,
            Role::Focus | Role::Strong | Role::User | Role::Heading => Modifier::BOLD,
            Role::Alarm => Modifier::BOLD.union(Modifier::REVERSED),
            Role::Chosen => Modifier::REVERSED,
        };
        let style = Style::new().add_modifier(modifier);
        match self.colour(role) {
            Some(colour) => style.fg(colour),
            None => style,
        }
    }

    fn colour(self, role: Role) -> Option<Color> {
        let [title, alarm, user, code] = match self {
            Self::Mono => return None,
            Self::Contrast if role == Role::Alarm => return Some(Color::Red),
            Self::Contrast => return None,
            Self::Auto => [Color::Cyan, Color::Red, Color::Green, Color::Magenta],
            Self::Dark => [
                Color::LightCyan,
                Color::LightRed,
                Color::LightGreen,
                Color::LightMagenta,
            ],
            Self::Light => [Color::Blue, Color::Red, Color::Green, Color::Magenta],
        };
        match role {
            Role::Title | Role::Focus | Role::Heading => Some(title),
            Role::Alarm => Some(alarm),
            Role::User => Some(user),
            Role::Code => Some(code),
            Role::Plain | Role::Quiet | Role::Strong | Role::Chosen => None,
        }
    }

    /// The look of a piece of text in a block that looks like `base`.
    pub fn span(self, base: Style, look: Look) -> Style {
        let style = match look.part {
            Part::Text => base,
            Part::Code => base.patch(self.style(Role::Code)),
            Part::Heading => base.patch(self.style(Role::Heading)),
            Part::Mark => base.patch(self.style(Role::Quiet)),
        };
        let mut modifier = Modifier::empty();
        modifier.set(Modifier::BOLD, look.strong);
        modifier.set(Modifier::ITALIC, look.emphasis);
        style.add_modifier(modifier)
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

    const ROLES: [Role; 10] = [
        Role::Plain,
        Role::Quiet,
        Role::Title,
        Role::Focus,
        Role::Strong,
        Role::Alarm,
        Role::User,
        Role::Chosen,
        Role::Code,
        Role::Heading,
    ];

    #[test]
    fn mono_has_no_colour_and_none_has_a_background() {
        for role in ROLES {
            assert_eq!(Theme::Mono.style(role).fg, None);
            for theme in Theme::ALL {
                let style = theme.style(role);
                assert_eq!(style.bg, None);
                assert!(!matches!(
                    style.fg,
                    Some(Color::White | Color::Black | Color::Yellow | Color::Rgb(..))
                ));
                // Never by colour alone.
                if theme != Theme::Contrast {
                    assert_eq!(style.add_modifier, Theme::Mono.style(role).add_modifier);
                }
            }
        }
        assert!(
            !Theme::Contrast
                .style(Role::Quiet)
                .add_modifier
                .contains(Modifier::DIM)
        );
    }

    #[test]
    fn themes_go_by_their_names() {
        for theme in Theme::ALL {
            assert_eq!(theme.name().parse(), Ok(theme));
        }
        assert!(
            "blue"
                .parse::<Theme>()
                .is_err_and(|why| why.contains("auto, dark, light, contrast, mono"))
        );
    }
}
