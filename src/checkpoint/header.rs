//! The header of one safetensors file: read, validated against the size of the file, and handed out entry by entry.
//! No tree is built and no data is touched.
//!
//! The format: 8 bytes little-endian header length, a JSON object of that length, the tensors' data without gaps.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use serde::de::{
    self, Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use super::Error;

/// Bytes before the header: its length.
pub const PREFIX: u64 = 8;
/// The format's own limit on a header. The release's are under 1 MB.
const MAX_HEADER: u64 = 100_000_000;
const MAX_NAME: usize = 511;
const MAX_KEY: usize = 63;
const MAX_RANK: usize = 4;

/// Element type of a tensor on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// Bytes: packed FP4 pairs and E8M0 scales.
    U8,
    /// The upper half of an f32.
    Bf16,
    /// IEEE half precision. Nothing in the release uses it.
    F16,
    /// IEEE single precision.
    F32,
}

impl Dtype {
    /// Bytes an element.
    pub fn size(self) -> u64 {
        match self {
            Dtype::U8 => 1,
            Dtype::Bf16 | Dtype::F16 => 2,
            Dtype::F32 => 4,
        }
    }

    /// The format's name of the type.
    pub fn name(self) -> &'static str {
        match self {
            Dtype::U8 => "U8",
            Dtype::Bf16 => "BF16",
            Dtype::F16 => "F16",
            Dtype::F32 => "F32",
        }
    }

    fn parse(name: &str) -> Option<Dtype> {
        [Dtype::U8, Dtype::Bf16, Dtype::F16, Dtype::F32]
            .into_iter()
            .find(|dtype| dtype.name() == name)
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Up to four dimensions, rows first, kept inline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    dims: [usize; MAX_RANK],
    rank: u8,
}

impl Shape {
    /// The dimensions; none for a scalar.
    pub fn dims(&self) -> &[usize] {
        &self.dims[..usize::from(self.rank)]
    }

    fn push(&mut self, dim: usize) -> bool {
        let Some(slot) = self.dims.get_mut(usize::from(self.rank)) else {
            return false;
        };
        *slot = dim;
        self.rank += 1;
        true
    }
}

/// One tensor as the header lists it, already checked against the size of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Name, escapes decoded.
    pub name: &'a str,
    /// Element type.
    pub dtype: Dtype,
    /// Dimensions.
    pub shape: Shape,
    /// First byte, counted from the end of the header.
    pub start: u64,
    /// Size in bytes.
    pub bytes: u64,
}

/// Checks the length that a file of `file_len` bytes begins with.
///
/// # Errors
/// [`Error::Header`] when the file cannot hold such a header.
pub fn length(path: &Path, prefix: [u8; PREFIX as usize], file_len: u64) -> Result<usize, Error> {
    let length = u64::from_le_bytes(prefix);
    // Subtracted, because adding 8 to a length near 2^64 wraps around.
    let room = file_len.saturating_sub(PREFIX);
    if length == 0 {
        return Err(Error::header(path, "its header is empty"));
    }
    if length > room {
        let problem = format!(
            "it states a header of {length} bytes but holds only {room} more: it was cut off, or it is something else"
        );
        return Err(Error::header(path, problem));
    }
    if length > MAX_HEADER {
        let problem = format!(
            "it states a header of {length} bytes, more than the format's limit of {MAX_HEADER}"
        );
        return Err(Error::header(path, problem));
    }
    Ok(length as usize)
}

/// Reads a header and hands every tensor to `each`, in the order of the file. `data_len` is what the file holds after
/// the header; the tensors must cover it exactly. Names are not compared with each other: that is `each`'s business,
/// since a name must be unique across files too.
///
/// # Errors
/// [`Error::Header`] for what is wrong in the header, or whatever `each` returned.
pub fn parse(
    path: &Path,
    header: &[u8],
    data_len: u64,
    mut each: impl FnMut(Entry<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    if header.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return Err(Error::header(path, "its header does not begin with '{'"));
    }
    let mut scan = Scan {
        data_len,
        spans: Vec::new(),
        handed: 0,
        skip: 0,
        failure: None,
        each: &mut each,
    };
    let mut outcome = scan.run(header);
    if let Err(error) = &outcome
        && (error.is_syntax() || error.is_eof())
        && let Some(mended) = without_trailing_commas(header)
    {
        // What was handed out already is the same in the mended copy.
        scan.skip = std::mem::take(&mut scan.handed);
        scan.spans.clear();
        outcome = scan.run(&mended);
    }
    if let Some(error) = scan.failure {
        return Err(error);
    }
    outcome.map_err(|error| Error::header(path, error.to_string()))?;
    check_tiling(&mut scan.spans, data_len).map_err(|problem| Error::header(path, problem))
}

/// Tensors must follow each other from the first byte of the data to the last; empty ones may stand anywhere.
fn check_tiling(spans: &mut [(u64, u64)], data_len: u64) -> Result<(), String> {
    if !spans.is_sorted() {
        spans.sort_unstable();
    }
    let mut reached = 0;
    for &(start, end) in spans.iter() {
        if start > reached {
            return Err(format!(
                "bytes {reached} to {start} of its data belong to no tensor"
            ));
        }
        if start < reached {
            return Err(format!("two tensors overlap at byte {start} of its data"));
        }
        reached = end;
    }
    if reached < data_len {
        return Err(format!(
            "{} bytes follow the last tensor",
            data_len - reached
        ));
    }
    Ok(())
}

/// A copy with the commas blanked out that stand before a closing bracket outside a string; `None` when there are
/// none. Some writers leave them.
fn without_trailing_commas(text: &[u8]) -> Option<Vec<u8>> {
    let mut copy = text.to_vec();
    let (mut in_string, mut escaped, mut comma, mut changed) = (false, false, None, false);
    for (at, &byte) in text.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => (in_string, comma) = (!in_string, None),
            _ if in_string => {}
            b',' => comma = Some(at),
            b'}' | b']' => {
                if let Some(comma) = comma.take() {
                    copy[comma] = b' ';
                    changed = true;
                }
            }
            b' ' | b'\t' | b'\n' | b'\r' => {}
            _ => comma = None,
        }
    }
    changed.then_some(copy)
}

/// One pass over a header.
struct Scan<'e> {
    data_len: u64,
    /// Where the tensors that are not empty lie.
    spans: Vec<(u64, u64)>,
    handed: usize,
    skip: usize,
    /// What `each` returned, for which serde has no place.
    failure: Option<Error>,
    each: &'e mut dyn FnMut(Entry<'_>) -> Result<(), Error>,
}

impl Scan<'_> {
    fn run(&mut self, header: &[u8]) -> Result<(), serde_json::Error> {
        let mut deserializer = serde_json::Deserializer::from_slice(header);
        deserializer.deserialize_map(&mut *self)?;
        deserializer.end()
    }

    fn hand_out<E: de::Error>(&mut self, entry: Entry<'_>) -> Result<(), E> {
        if entry.bytes > 0 {
            self.spans.push((entry.start, entry.start + entry.bytes));
        }
        self.handed += 1;
        if self.handed > self.skip
            && let Err(error) = (self.each)(entry)
        {
            self.failure = Some(error);
            return Err(E::custom("refused"));
        }
        Ok(())
    }
}

impl<'de> Visitor<'de> for &mut Scan<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(Text(name)) = members.next_key::<Text<'de>>()? {
            if name == "__metadata__" {
                members.next_value::<IgnoredAny>()?;
                continue;
            }
            if name.len() > MAX_NAME {
                return Err(de::Error::custom(format_args!(
                    "a tensor's name is longer than {MAX_NAME} bytes"
                )));
            }
            let entry = members.next_value_seed(EntrySeed {
                name: &name,
                data_len: self.data_len,
            })?;
            self.hand_out(entry)?;
        }
        Ok(())
    }
}

/// A string, borrowed from the header unless it has escapes.
struct Text<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text<'a>, D::Error> {
        struct TextVisitor;

        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Cow<'de, str>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Cow::Borrowed(text))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Cow::Owned(text.to_owned()))
            }
        }

        deserializer.deserialize_str(TextVisitor).map(Text)
    }
}

/// Reads the value of one entry, whose name is known.
#[derive(Clone, Copy)]
struct EntrySeed<'n> {
    name: &'n str,
    data_len: u64,
}

impl<'n> EntrySeed<'n> {
    fn error<E: de::Error>(&self, problem: impl fmt::Display) -> E {
        E::custom(format_args!("tensor {:?}: {problem}", self.name))
    }

    /// The rules on one entry, in an order in which no computation can overflow.
    fn checked(&self, dtype: &str, shape: Shape, offsets: [u64; 2]) -> Result<Entry<'n>, String> {
        let dtype = Dtype::parse(dtype)
            .ok_or_else(|| format!("its dtype {dtype:?} is none of U8, BF16, F16 and F32"))?;
        let [start, end] = offsets;
        if start > end {
            return Err(format!("its data_offsets [{start}, {end}] run backwards"));
        }
        if end > self.data_len {
            return Err(format!(
                "its data ends at byte {end}, but the file holds only {} bytes of data: it is incomplete",
                self.data_len
            ));
        }
        let bytes = shape
            .dims()
            .iter()
            .try_fold(1u64, |count, &dim| count.checked_mul(dim as u64))
            .and_then(|count| count.checked_mul(dtype.size()))
            .ok_or_else(|| format!("its shape {:?} is impossibly large", shape.dims()))?;
        if bytes != end - start {
            return Err(format!(
                "its shape {:?} of {dtype} takes {bytes} bytes, but its data_offsets span {}",
                shape.dims(),
                end - start
            ));
        }
        Ok(Entry {
            name: self.name,
            dtype,
            shape,
            start,
            bytes,
        })
    }
}

impl<'de, 'n> DeserializeSeed<'de> for EntrySeed<'n> {
    type Value = Entry<'n>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Entry<'n>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, 'n> Visitor<'de> for EntrySeed<'n> {
    type Value = Entry<'n>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object that describes tensor {:?}", self.name)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Entry<'n>, A::Error> {
        let (mut dtype, mut shape, mut offsets) = (None, None, None);
        while let Some(Text(key)) = members.next_key::<Text<'de>>()? {
            let again = match &*key {
                "dtype" => dtype.replace(members.next_value::<Text<'de>>()?).is_some(),
                "shape" => shape.replace(members.next_value::<Dims>()?).is_some(),
                "data_offsets" => offsets
                    .replace(members.next_value::<[Whole; 2]>()?)
                    .is_some(),
                key if key.len() > MAX_KEY => {
                    return Err(self.error(format_args!("a key is longer than {MAX_KEY} bytes")));
                }
                _ => {
                    members.next_value::<IgnoredAny>()?;
                    false
                }
            };
            if again {
                return Err(self.error(format_args!("{key} is given twice")));
            }
        }
        let Text(dtype) = dtype.ok_or_else(|| self.error("dtype is missing"))?;
        let Dims(shape) = shape.ok_or_else(|| self.error("shape is missing"))?;
        let [Whole(start), Whole(end)] =
            offsets.ok_or_else(|| self.error("data_offsets is missing"))?;
        self.checked(&dtype, shape, [start, end])
            .map_err(|problem| self.error(problem))
    }
}

/// A whole number that is not negative. One above 2^64 arrives as a fraction and is refused as such.
#[derive(Clone, Copy)]
struct Whole(u64);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Whole, D::Error> {
        struct WholeVisitor;

        impl Visitor<'_> for WholeVisitor {
            type Value = u64;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number from 0 to 2^64 - 1")
            }

            fn visit_u64<E>(self, value: u64) -> Result<u64, E> {
                Ok(value)
            }
        }

        deserializer.deserialize_u64(WholeVisitor).map(Whole)
    }
}

/// The list of dimensions, of which a fifth is refused before it is kept.
struct Dims(Shape);

impl<'de> Deserialize<'de> for Dims {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Dims, D::Error> {
        struct DimsVisitor;

        impl<'de> Visitor<'de> for DimsVisitor {
            type Value = Shape;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of dimensions")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Shape, A::Error> {
                let mut shape = Shape::default();
                while let Some(Whole(dim)) = items.next_element()? {
                    let dim = usize::try_from(dim).map_err(de::Error::custom)?;
                    if !shape.push(dim) {
                        return Err(de::Error::custom(format_args!(
                            "a shape has more than {MAX_RANK} dimensions"
                        )));
                    }
                }
                Ok(shape)
            }
        }

        deserializer.deserialize_seq(DimsVisitor).map(Dims)
    }
}
