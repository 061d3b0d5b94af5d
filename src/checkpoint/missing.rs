//! Why a tensor is not there: an incomplete download, a damaged shard, or a checkpoint of another model.
//!
//! `model.safetensors.index.json` only explains: loading does not need it, the headers of the shards are the truth.

use std::collections::{BTreeMap, BTreeSet};

use super::index_file::{self, INDEX_FILE};
use super::shards::{EXTENSION, Shards};

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
    let names: Vec<String> = file_names(shards).collect();
    absent_numbers(names.iter().map(String::as_str), LISTED)
}

/// How many files are missing by the numbering of those that are there, and the first `listed` of their names.
pub(super) fn absent_numbers<'n>(
    there: impl Iterator<Item = &'n str>,
    listed: usize,
) -> (u64, Vec<String>) {
    let mut families: BTreeMap<Family, BTreeSet<u64>> = BTreeMap::new();
    for name in there {
        if let Some((family, number)) = Family::parse(name) {
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
        // Ends after the shards that are here and those that are listed, whatever total a name states.
        let absent = (1..=total).filter(|number| !present.contains(number));
        names.extend(
            absent
                .take(listed - names.len())
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

/// Reads the index: of its half million names only those asked for are kept. `None` when there is none.
fn look_up(shards: &Shards, names: &[String]) -> Result<Option<Placed>, String> {
    let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let mut placed = Placed::default();
    let found = index_file::read(shards.dir(), &mut |name, file| {
        if !placed.files.contains(file) {
            placed.files.insert(file.to_owned());
        }
        if names.contains(name) {
            placed.wanted.insert(name.to_owned(), file.to_owned());
        }
    })?;
    Ok(found.map(|_| placed))
}
