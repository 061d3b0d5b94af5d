//! The element types that a checkpoint may hold. Nothing about what they are used for.

use std::fmt;

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

    /// The type of that name, if it is one of the four.
    pub fn parse(name: &str) -> Option<Dtype> {
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
