//! Why a tensor is not there: an incomplete download, a damaged shard, or a checkpoint of another model.
//!
//! `model.safetensors.index.json` is read here only. Loading does not need it: the headers of the shards are the
//! truth.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read};

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::shards::{EXTENSION, Shards};

/// The file that maps names to shards.
pub(super) const INDEX_FILE: &str = "model.safetensors.index.json";
/// A larger file is not such an index; the release's has 50 MB.
const MAX_INDEX: u64 = 256_000_000;
/// How many names of files a message lists.
const LISTED: usize = 4;

/// One line for every reason why `names` may be missing.
pub(super) fn explain(shards: &Shards, names: &[String]) -> Vec<String> {
    match look_up(shards, names) {
        Ok(Some(placed)) => by_index(shards, names, &placed),
        Ok(None) => by_numbering(
            shards,
            &format!("there is no {INDEX_FILE} to say where they should be"),
        ),
        Err(problem) => by_numbering(shards, &format!("{INDEX_FILE} cannot be used ({problem})")),
    }
}

fn by_index(shards: &Shards, names: &[String], placed: &Placed) -> Vec<String> {
    let here: BTreeSet<String> = file_names(shards).collect();
    let mut reasons = Vec::new();
    let absent: Vec<&str> = placed
        .files
        .iter()
        .filter(|file| !here.contains(*file))
        .map(String::as_str)
        .collect();
    if !absent.is_empty() {
        reasons.push(format!(
            "the index names {}, which {} not here: the download is incomplete, go on with it",
            listed(&absent, absent.len() as u64),
            if absent.len() == 1 { "is" } else { "are" }
        ));
    }
    let damaged: BTreeSet<&str> = placed
        .wanted
        .values()
        .filter(|file| here.contains(*file))
        .map(String::as_str)
        .collect();
    for file in damaged {
        reasons.push(format!(
            "the index places missing tensors in {file}, which is here but does not hold them: the file is cut or of \
             another revision, fetch it again"
        ));
    }
    if let Some(name) = names.iter().find(|name| !placed.wanted.contains_key(*name)) {
        reasons.push(format!(
            "the index does not list {name}: config.json and this program expect another model than the one here, so \
             this is not a matter of the download"
        ));
    }
    reasons
}

fn by_numbering(shards: &Shards, index: &str) -> Vec<String> {
    let (count, names) = by_number(shards);
    let numbers = if count == 0 {
        "no number is missing among the shards: they belong to another model, or were cut"
            .to_owned()
    } else {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        format!(
            "by their numbers {} should be here too: the download is incomplete",
            listed(&names, count)
        )
    };
    vec![format!("{index}; {numbers}")]
}

fn listed(names: &[&str], count: u64) -> String {
    let shown = names.len().min(LISTED);
    let more = count - shown as u64;
    let rest = if more == 0 {
        String::new()
    } else {
        format!(" and {more} more")
    };
    format!("{}{rest}", names[..shown].join(", "))
}

fn file_names(shards: &Shards) -> impl Iterator<Item = String> {
    (0..shards.count()).filter_map(|shard| {
        Some(
            shards
                .path(shard)
                .file_name()?
                .to_string_lossy()
                .into_owned(),
        )
    })
}

/// How many shards are missing by the numbering of the others, and the first four of their names.
pub(super) fn by_number(shards: &Shards) -> (u64, Vec<String>) {
    let mut families: BTreeMap<Family, BTreeSet<u64>> = BTreeMap::new();
    for name in file_names(shards) {
        if let Some((family, number)) = Family::parse(&name) {
            families.entry(family).or_default().insert(number);
        }
    }
    let (mut count, mut names) = (0u64, Vec::new());
    for (family, present) in &families {
        let total = family.total.parse::<u64>().unwrap_or(0);
        count += total.saturating_sub(
            present
                .iter()
                .filter(|&&n| (1..=total).contains(&n))
                .count() as u64,
        );
        // Ends after the shards that are here and the four that are not, whatever total a name states.
        let absent = (1..=total).filter(|number| !present.contains(number));
        names.extend(
            absent
                .take(LISTED - names.len())
                .map(|number| family.name(number)),
        );
    }
    (count, names)
}

/// What the names of one set of shards share: `prefix-NUMBER-of-TOTAL.safetensors`. The two numbers need not have the
/// same number of digits; the release has five and six.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Family {
    prefix: String,
    digits: usize,
    total: String,
}

impl Family {
    fn parse(name: &str) -> Option<(Family, u64)> {
        let (rest, total) = name.strip_suffix(EXTENSION)?.rsplit_once("-of-")?;
        let (prefix, number) = rest.rsplit_once('-')?;
        if !total
            .bytes()
            .chain(number.bytes())
            .all(|byte| byte.is_ascii_digit())
        {
            return None;
        }
        let family = Family {
            prefix: prefix.to_owned(),
            digits: number.len(),
            total: total.to_owned(),
        };
        Some((family, number.parse().ok()?))
    }

    fn name(&self, number: u64) -> String {
        let Family {
            prefix,
            digits,
            total,
        } = self;
        format!("{prefix}-{number:0digits$}-of-{total}{EXTENSION}")
    }
}

/// What the index says.
#[derive(Default)]
struct Placed {
    /// Every file that it names.
    files: BTreeSet<String>,
    /// The files of the names that were asked for.
    wanted: BTreeMap<String, String>,
}

/// Reads the index as a stream: of its half million names only those asked for are kept. `None` when there is none.
fn look_up(shards: &Shards, names: &[String]) -> Result<Option<Placed>, String> {
    let file = match File::open(shards.dir().join(INDEX_FILE)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let len = file.metadata().map_err(|error| error.to_string())?.len();
    if len > MAX_INDEX {
        return Err(format!("{len} bytes are too many for an index"));
    }
    let mut placed = Placed::default();
    let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let reader = BufReader::with_capacity(1 << 16, file.take(MAX_INDEX));
    let mut deserializer = serde_json::Deserializer::from_reader(reader);
    let found = IndexSeed {
        names: &names,
        placed: &mut placed,
    }
    .deserialize(&mut deserializer)
    .map_err(|error| error.to_string())?;
    if found {
        Ok(Some(placed))
    } else {
        Err("it has no weight_map".to_owned())
    }
}

/// Finds `weight_map`; says whether there was one.
struct IndexSeed<'a> {
    names: &'a BTreeSet<&'a str>,
    placed: &'a mut Placed,
}

impl<'de> DeserializeSeed<'de> for IndexSeed<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for IndexSeed<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a weight_map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<bool, A::Error> {
        let mut found = false;
        while let Some(key) = members.next_key::<String>()? {
            if key == "weight_map" {
                members.next_value_seed(MapSeed {
                    names: self.names,
                    placed: self.placed,
                })?;
                found = true;
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

/// Reads `weight_map` itself.
struct MapSeed<'a> {
    names: &'a BTreeSet<&'a str>,
    placed: &'a mut Placed,
}

impl<'de> DeserializeSeed<'de> for MapSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for MapSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of names and files")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some((name, file)) = members.next_entry::<String, String>()? {
            if !self.placed.files.contains(&file) {
                self.placed.files.insert(file.clone());
            }
            if self.names.contains(name.as_str()) {
                self.placed.wanted.insert(name, file);
            }
        }
        Ok(())
    }
}
