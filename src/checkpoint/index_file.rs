//! `model.safetensors.index.json`: which file holds which tensor, read as a stream. What follows from it is decided
//! elsewhere.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

/// The file that maps names to shards.
pub const INDEX_FILE: &str = "model.safetensors.index.json";
/// A larger file is not such an index; the release's has 50 MB.
const MAX_INDEX: u64 = 256_000_000;

/// What an index says of all tensors together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stated {
    /// Bytes of all tensors, headers left out, if it states them.
    pub total_size: Option<u64>,
}

/// Reads the index of a folder and hands every tensor's name and file to `each`. `None` when there is no index.
///
/// # Errors
/// What is wrong with it, without the file's name.
pub(super) fn read(dir: &Path, each: &mut dyn FnMut(&str, &str)) -> Result<Option<Stated>, String> {
    let file = match File::open(dir.join(INDEX_FILE)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let len = file.metadata().map_err(|error| error.to_string())?.len();
    if len > MAX_INDEX {
        return Err(format!("{len} bytes are too many for an index"));
    }
    let reader = BufReader::with_capacity(1 << 16, file.take(MAX_INDEX));
    let mut deserializer = serde_json::Deserializer::from_reader(reader);
    let mut stated = Stated::default();
    let found = IndexSeed {
        each,
        stated: &mut stated,
    }
    .deserialize(&mut deserializer)
    .map_err(|error| error.to_string())?;
    if found {
        Ok(Some(stated))
    } else {
        Err("it has no weight_map".to_owned())
    }
}

/// The members of `metadata` that are of use.
#[derive(Deserialize)]
struct Metadata {
    // Some writers give a float.
    total_size: Option<serde_json::Number>,
}

/// Finds `weight_map`; says whether there was one.
struct IndexSeed<'a> {
    each: &'a mut dyn FnMut(&str, &str),
    stated: &'a mut Stated,
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
            match key.as_str() {
                "weight_map" => {
                    members.next_value_seed(MapSeed(&mut *self.each))?;
                    found = true;
                }
                "metadata" => {
                    // Any shape will do: it only helps.
                    let value = members.next_value::<serde_json::Value>()?;
                    let metadata = serde_json::from_value::<Metadata>(value).ok();
                    let size = metadata.and_then(|metadata| metadata.total_size);
                    self.stated.total_size = size.and_then(|size| size.as_u64());
                }
                _ => {
                    members.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(found)
    }
}

/// Reads `weight_map` itself.
struct MapSeed<'a>(&'a mut dyn FnMut(&str, &str));

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
            (self.0)(&name, &file);
        }
        Ok(())
    }
}
