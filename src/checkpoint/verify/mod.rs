//! What is wrong with the files of a checkpoint, file by file: the list against the index, headers, sizes, and what is no
//! shard at all. Of the weights only samples are read; that every byte is right is for hashes.

mod impostor;
mod shard;
mod zeros;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::Path;

use serde::Serialize;

use super::index_file::{self, INDEX_FILE};
use super::{Checkpoint, Config, Error, missing, shards};

/// One thing that is wrong, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// The file, as it is called in the folder; or the folder.
    pub file: String,
    /// What is wrong with it.
    pub problem: String,
    /// What to do.
    pub remedy: &'static str,
}

impl Fault {
    /// A fault of a file.
    pub fn new(file: impl Into<String>, problem: impl Into<String>, remedy: &'static str) -> Self {
        Self {
            file: file.into(),
            problem: problem.into(),
            remedy,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.file, self.problem, self.remedy)
    }
}

/// For a file that is not there.
const FETCH: &str = "fetch it, by the same download again";
/// For a file that is there and wrong. The usual clients keep what looks complete, so it has to go first.
pub const AGAIN: &str = "delete it and fetch it again";

/// What was found in a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Examined {
    /// Shards that are there.
    pub shards: usize,
    /// Shards that should be there, by the index or else by their numbers, and are not.
    pub missing: Vec<String>,
    /// Bytes of the shards that are there.
    pub bytes: u64,
    /// Tensors in the shards whose headers can be read.
    pub tensors: u64,
    /// Everything that is wrong.
    pub faults: Vec<Fault>,
    /// What is worth knowing and no fault.
    pub notes: Vec<String>,
}

/// Most files that are listed by name; a number in a name may state any count.
const LISTED: usize = 1000;

/// Looks at the files of the checkpoint in a folder.
///
/// # Errors
/// The folder cannot be listed. What is wrong inside it is no error but what this function is for.
pub fn examine(dir: &Path) -> Result<Examined, Error> {
    let names = shards::names(dir)?;
    let there: BTreeSet<String> = names
        .iter()
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    let mut examined = Examined {
        shards: there.len(),
        ..Examined::default()
    };
    let mut index = read_index(dir, &mut examined);
    absent(&there, index.as_ref(), &mut examined);

    let mut data = 0u64;
    for name in &there {
        let path = dir.join(name);
        match shard::examine(&path) {
            Ok(shard) => {
                examined.bytes += shard.bytes;
                examined.tensors += shard.names.len() as u64;
                data += shard.data;
                if let Some(index) = &mut index {
                    compare(name, &shard.names, index, &mut examined.faults);
                }
                if let Some(problem) = shard.zeros {
                    examined.faults.push(Fault::new(name, problem, AGAIN));
                }
            }
            Err(problem) => {
                // What is no shard takes room all the same.
                examined.bytes += fs::metadata(&path).map_or(0, |meta| meta.len());
                examined.faults.push(Fault::new(name, problem, AGAIN));
            }
        }
    }
    if let Some(total) = index.and_then(|index| index.total_size)
        && examined.faults.is_empty()
        && total != data
    {
        let problem = format!("states {total} bytes of tensors, the shards hold {data}");
        examined.faults.push(Fault::new(
            INDEX_FILE,
            problem,
            "fetch index and shards of one revision",
        ));
    }
    whole(dir, &mut examined);
    Ok(examined)
}

/// What the index of a folder states: how many files there are, and the bytes of all their tensors.
///
/// # Errors
/// There is no index, or it cannot be used or does not state it; without the file's name.
pub fn stated(dir: &Path) -> Result<(usize, u64), String> {
    let mut files = BTreeSet::new();
    let stated = index_file::read(dir, &mut |_, file| {
        if !files.contains(file) {
            files.insert(file.to_owned());
        }
    })?;
    let stated = stated.ok_or("is not here")?;
    let bytes = stated.total_size.ok_or("does not state total_size")?;
    Ok((files.len(), bytes))
}

/// What the index says: every file that it names, with the tensors that it places there.
struct Index {
    files: BTreeMap<String, BTreeSet<Box<str>>>,
    total_size: Option<u64>,
}

fn read_index(dir: &Path, examined: &mut Examined) -> Option<Index> {
    let mut files: BTreeMap<String, BTreeSet<Box<str>>> = BTreeMap::new();
    let read = index_file::read(dir, &mut |name, file| match files.get_mut(file) {
        Some(names) => {
            names.insert(name.into());
        }
        None => {
            files.insert(file.to_owned(), BTreeSet::from([name.into()]));
        }
    });
    match read {
        Ok(Some(stated)) => Some(Index {
            files,
            total_size: stated.total_size,
        }),
        Ok(None) => {
            let note = format!(
                "there is no {INDEX_FILE}: which shards there should be is taken from their numbers"
            );
            examined.notes.push(note);
            None
        }
        Err(problem) => {
            let problem = impostor::of(&dir.join(INDEX_FILE))
                .unwrap_or_else(|| format!("cannot be used: {problem}"));
            examined.faults.push(Fault::new(INDEX_FILE, problem, AGAIN));
            None
        }
    }
}

/// Shards that should be there and are not, and those that should not be there.
fn absent(there: &BTreeSet<String>, index: Option<&Index>, examined: &mut Examined) {
    match index {
        Some(index) => {
            let named = index.files.keys();
            examined.missing = named
                .filter(|file| !there.contains(*file))
                .cloned()
                .collect();
            for name in there.iter().filter(|name| !index.files.contains_key(*name)) {
                examined.faults.push(Fault::new(
                    name,
                    format!(
                        "is not named in {INDEX_FILE}: of another revision, or of another model"
                    ),
                    "move it out of the folder",
                ));
            }
        }
        None => {
            let names = there.iter().map(String::as_str);
            let (count, names) = missing::absent_numbers(names, LISTED);
            if count > names.len() as u64 {
                let note =
                    format!("by their numbers {count} shards are missing; the first are listed");
                examined.notes.push(note);
            }
            examined.missing = names;
        }
    }
    for name in &examined.missing {
        examined.faults.push(Fault::new(name, "is not here", FETCH));
    }
    if there.is_empty() && examined.missing.is_empty() {
        examined.faults.push(Fault::new(
            ".",
            format!("no *{} file is here", shards::EXTENSION),
            "name the folder that holds the model",
        ));
    }
}

/// Compares the names in a shard with those that the index places there.
fn compare(file: &str, names: &[Box<str>], index: &mut Index, faults: &mut Vec<Fault>) {
    let Some(placed) = index.files.get_mut(file) else {
        return;
    };
    let unplaced: Vec<&str> = names
        .iter()
        .filter(|name| !placed.remove(*name))
        .map(|name| &**name)
        .collect();
    if let Some(name) = unplaced.first() {
        let problem = format!(
            "holds {} that {INDEX_FILE} does not place in it",
            several(name, unplaced.len())
        );
        faults.push(Fault::new(
            file,
            problem,
            "fetch index and shards of one revision",
        ));
    }
    if let Some(name) = placed.first() {
        let problem = format!(
            "does not hold {} that {INDEX_FILE} places in it",
            several(name, placed.len())
        );
        faults.push(Fault::new(file, problem, AGAIN));
    }
}

/// A name and how many more.
fn several(name: &str, count: usize) -> String {
    match count {
        0 | 1 => name.to_owned(),
        _ => format!("{name} and {} more tensors", count - 1),
    }
}

/// Whether the files, each right by itself, are the model that the configuration describes.
fn whole(dir: &Path, examined: &mut Examined) {
    const CONFIG: &str = "config.json";
    let one_line = |error: Error| error.to_string().replace("\n  ", " ").replace('\n', "; ");
    let path = dir.join(CONFIG);
    let config = match Config::load(&path) {
        Ok(config) => config,
        Err(error) => {
            let problem = match impostor::of(&path) {
                Some(problem) => problem,
                None if !path.exists() => "is not here".into(),
                None => one_line(error),
            };
            return examined.faults.push(Fault::new(CONFIG, problem, AGAIN));
        }
    };
    // With a shard missing or damaged, hundreds of tensors are missing too, which says nothing more.
    if !examined.faults.is_empty() {
        return;
    }
    let layers = config.layers();
    let checked = Checkpoint::open(dir, config).and_then(|checkpoint| checkpoint.check(layers));
    if let Err(error) = checked {
        examined.faults.push(Fault::new(
            ".",
            one_line(error),
            "fetch config.json and shards of one revision",
        ));
    }
}

#[cfg(test)]
mod tests;
