//! The settings file of `k3-tui`. What a person sets once; flags win over it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{TelemetryView, Theme, ThinkView, editor};
use crate::checkpoint::{atomic, one_line};
use crate::cli::Exit;
use crate::cli::remote::ServerSettings;
use crate::stream::Preset;
use crate::text::Effort;

/// The file as it is made, everything in it explained and off.
const EMPTY: &str = include_str!("../../assets/settings.toml");

/// What can be set. What is left out has its default.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The checkpoint folder to open when none is named.
    pub model: Option<PathBuf>,
    /// How much memory to take.
    #[serde(deserialize_with = "word")]
    pub preset: Option<Preset>,
    /// How much to think; none inside is not to think.
    #[serde(deserialize_with = "effort")]
    pub effort: Option<Option<Effort>>,
    /// The looks.
    #[serde(deserialize_with = "word")]
    pub theme: Option<Theme>,
    /// Whether answers are shown as they came.
    pub raw: bool,
    /// How much of the reasoning is shown.
    pub think: ThinkView,
    /// How much of the telemetry is shown.
    pub telemetry: TelemetryView,
    /// Whether nothing moves that need not.
    pub reduced_motion: bool,
    /// Whether the program's own marks keep to ASCII.
    pub ascii: bool,
    /// Whether the end of a long answer rings.
    pub bell: bool,
    /// Whether the window's title is set.
    pub titles: bool,
    /// Whether conversations are kept where no file is named.
    pub keep: bool,
    /// Whether to talk line by line.
    pub plain: bool,
    /// The model to begin with: `local`, or the name of a server.
    pub backend: Option<String>,
    /// Servers by name.
    pub servers: BTreeMap<String, ServerSettings>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            model: None,
            preset: None,
            effort: None,
            theme: None,
            raw: false,
            think: ThinkView::default(),
            telemetry: TelemetryView::default(),
            reduced_motion: false,
            ascii: false,
            bell: true,
            titles: true,
            keep: true,
            plain: false,
            backend: None,
            servers: BTreeMap::new(),
        }
    }
}

/// A word of a closed list, with the list's own refusal.
fn word<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: std::str::FromStr<Err: std::fmt::Display>,
{
    let word = String::deserialize(deserializer)?;
    word.parse().map(Some).map_err(serde::de::Error::custom)
}

fn effort<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Option<Effort>>, D::Error> {
    match String::deserialize(deserializer)?.as_str() {
        "off" => Ok(Some(None)),
        word => word
            .parse()
            .map(|effort| Some(Some(effort)))
            .map_err(serde::de::Error::custom),
    }
}

impl Settings {
    /// The file in the platform's folder for settings; none where there is no home.
    pub fn default_path() -> Option<PathBuf> {
        let folders = directories::ProjectDirs::from("", "", "k3-tui")?;
        Some(folders.config_dir().join("settings.toml"))
    }

    /// Reads the file that was named, which must be there, or the one in the platform's folder, if there is one.
    ///
    /// # Errors
    /// It cannot be read, or says something that cannot be.
    pub fn load(named: Option<&Path>) -> Result<Self, Exit> {
        let path = match named {
            Some(path) => path.to_owned(),
            None => match Self::default_path().filter(|path| path.exists()) {
                Some(path) => path,
                None => return Ok(Self::default()),
            },
        };
        let text = std::fs::read_to_string(&path).map_err(|cause| {
            Exit::Refused(format!("{} cannot be read: {cause}", path.display()))
        })?;
        Self::parse(&text).map_err(|why| Exit::Refused(format!("{}: {why}", path.display())))
    }

    /// Reads the text of a settings file.
    ///
    /// # Errors
    /// Where and what is wrong with it, in one line.
    pub fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| {
            // The error's own display shows the line, which may hold anything, over several lines.
            let why = one_line(&error.message().trim().replace('\n', "; "));
            match error.span().and_then(|span| text.get(..span.start)) {
                Some(before) => format!("line {}: {why}", 1 + before.matches('\n').count()),
                None => why,
            }
        })
    }

    /// Makes the file, with everything explained and off, if it is not there.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create(path: &Path) -> std::io::Result<()> {
        if path.exists() {
            return Ok(());
        }
        atomic::private_folder(atomic::folder(path))?;
        atomic::replace(path, atomic::Access::Ordinary, EMPTY.as_bytes())
    }

    /// Opens the file in the editor, made before if need be. In a sentence what came of it.
    pub fn edit(path: &Path) -> String {
        if let Err(error) = Self::create(path) {
            return format!("{} cannot be made: {error}.", path.display());
        }
        match editor::open(path)
            .and_then(|()| Self::load(Some(path)).map_err(|why| why.to_string()))
        {
            Ok(_) => format!("What {} says holds from the next start on.", path.display()),
            Err(why) => format!("{why}. The next start would refuse it."),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every line that is off, switched on.
    fn switched_on() -> String {
        let lines = EMPTY.lines().map(|line| match line.strip_prefix("# ") {
            Some(setting) if setting.contains(" = ") || setting.starts_with('[') => setting,
            _ => "",
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_file_that_is_made_changes_nothing_and_shows_what_holds() {
        assert_eq!(Settings::parse(EMPTY), Ok(Settings::default()));
        let on = Settings::parse(&switched_on()).unwrap();
        let shown = Settings {
            model: None,
            preset: None,
            effort: None,
            theme: None,
            backend: None,
            servers: BTreeMap::new(),
            ..on.clone()
        };
        assert_eq!(shown, Settings::default());
        assert_eq!(on.backend.as_deref(), Some("local"));
        assert!(on.servers["cluster"].ca_file.is_some());
        assert_eq!(on.preset, Some(Preset::Auto));
        assert_eq!(on.effort, Some(Some(Effort::Max)));
        assert_eq!(on.theme, Some(Theme::Auto));
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_place() {
        for (text, part) in [
            ("modell = \"x\"", "unknown field `modell`"),
            ("\ntheme = \"blue\"", "line 2"),
            ("effort = \"medium\"", "expected low, high or max"),
            ("raw = 1", "invalid type"),
            ("[servers.a]\nmodel = \"x\"", "missing field `url`"),
            (
                "[servers.a]\nurl = \"x\"\nkey = \"k\"",
                "unknown field `key`",
            ),
            ("raw", "line 1"),
        ] {
            let why = Settings::parse(text).unwrap_err();
            assert!(why.contains(part), "{text}: {why}");
        }
        assert_eq!(
            Settings::parse("effort = \"off\"").unwrap().effort,
            Some(None)
        );
    }

    #[test]
    fn a_file_that_was_named_must_be_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("in/settings.toml");
        let refused = Settings::load(Some(&path)).unwrap_err();
        assert!(refused.to_string().contains("settings.toml cannot be read"));
        Settings::create(&path).unwrap();
        assert_eq!(Settings::load(Some(&path)).unwrap(), Settings::default());
        std::fs::write(&path, "bell = false").unwrap();
        Settings::create(&path).unwrap();
        assert!(!Settings::load(Some(&path)).unwrap().bell);
    }
}
