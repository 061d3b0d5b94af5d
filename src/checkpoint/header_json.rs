//! One pass over the JSON of a safetensors header: names and numbers as they come, each entry checked by itself. It
//! knows nothing of files but how much data follows.

use std::borrow::Cow;
use std::fmt;

use serde::de::{
    self, Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use super::Error;
use super::dtype::Dtype;
use super::header::{Entry, MAX_RANK, Shape};

const MAX_NAME: usize = 511;
const MAX_KEY: usize = 63;

/// One pass over a header.
pub(super) struct Scan<'e> {
    data_len: u64,
    /// First byte and end of every tensor that is not empty, counted from the end of the header.
    pub(super) spans: Vec<(u64, u64)>,
    /// What `each` returned, for which serde has no place. It ends the pass.
    pub(super) failure: Option<Error>,
    seen: usize,
    /// Entries that an earlier pass handed out.
    skip: usize,
    each: &'e mut dyn FnMut(Entry<'_>) -> Result<(), Error>,
}

impl<'e> Scan<'e> {
    /// Every entry that is sound in a file with so much data goes to `each`.
    pub(super) fn new(
        data_len: u64,
        each: &'e mut dyn FnMut(Entry<'_>) -> Result<(), Error>,
    ) -> Scan<'e> {
        Scan {
            data_len,
            spans: Vec::new(),
            failure: None,
            seen: 0,
            skip: 0,
            each,
        }
    }

    /// Reads a whole header.
    pub(super) fn run(&mut self, header: &[u8]) -> Result<(), serde_json::Error> {
        let mut deserializer = serde_json::Deserializer::from_slice(header);
        deserializer.deserialize_map(&mut *self)?;
        deserializer.end()
    }

    /// Reads a mended copy of the header that [`Scan::run`] stopped in. Up to that place the copy is the same, so
    /// that what was handed out already is passed over.
    pub(super) fn run_again(&mut self, mended: &[u8]) -> Result<(), serde_json::Error> {
        self.skip = std::mem::take(&mut self.seen);
        self.spans.clear();
        self.run(mended)
    }

    fn hand_out<E: de::Error>(&mut self, entry: Entry<'_>) -> Result<(), E> {
        if entry.bytes > 0 {
            self.spans.push((entry.start, entry.start + entry.bytes));
        }
        self.seen += 1;
        if self.seen > self.skip
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
