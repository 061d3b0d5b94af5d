//! The head of a state file: fixed fields, then the ids. Numbers are little-endian.
//!
//! | at | what |
//! |---:|---|
//! | 0 | magic, 8 bytes |
//! | 8 | version, u32 |
//! | 12 | layers, u32 |
//! | 16 | checkpoint identity, 32 bytes |
//! | 48 | configuration hash, 32 bytes |
//! | 80 | positions, u64 |
//! | 88 | number of ids, u64 |
//! | 96 | number of values, u64 |
//! | 104 | ids, u32 each |
//! | | SHA-256 of all before, 32 bytes |
//!
//! After the head come the values, f32 each, and the SHA-256 of all before.

use super::{ModelKey, Unfit};

/// The version that is written and read.
pub const VERSION: u32 = 1;
/// What every file begins with.
const MAGIC: [u8; 8] = *b"K3-STATE";
/// What state files of the C engine begin with.
const C_ENGINE: [u8; 4] = *b"K3ST";
/// Bytes of the fixed fields.
pub const FIXED: usize = 104;
/// Bytes of a hash.
pub const HASH: usize = 32;

/// The fixed fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    pub layers: u32,
    pub identity: [u8; 32],
    pub config: [u8; 32],
    pub positions: u64,
    pub ids: u64,
    pub values: u64,
}

impl Head {
    /// As bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(self.layers.to_le_bytes());
        bytes.extend(self.identity);
        bytes.extend(self.config);
        for number in [self.positions, self.ids, self.values] {
            bytes.extend(number.to_le_bytes());
        }
        bytes
    }

    /// From the first bytes of a file of `len` bytes, as many as there are of [`FIXED`]. What it says about the file's
    /// length is true then.
    ///
    /// # Errors
    /// It is another kind of file, another version, or not as long as it says.
    pub fn parse(bytes: &[u8], len: u64) -> Result<Self, Unfit> {
        if bytes.starts_with(&C_ENGINE) {
            return Err(Unfit::OfCEngine);
        }
        // A file that was cut within the magic is a file that was cut.
        let magic = bytes.len().min(MAGIC.len());
        if bytes[..magic] != MAGIC[..magic] {
            return Err(Unfit::NoState);
        }
        let cut = |want| Unfit::Cut { got: len, want };
        let mut rest = &bytes[magic..];
        let version = u32::from_le_bytes(take(&mut rest).ok_or(cut(FIXED as u64))?);
        if version != VERSION {
            return Err(Unfit::Version(version));
        }
        let fields = Self::fields(&mut rest).ok_or(cut(FIXED as u64))?;
        let want = fields.file_len().ok_or(Unfit::Inconsistent(
            "no file is as long as its header says".into(),
        ))?;
        match len.checked_sub(want) {
            None => Err(cut(want)),
            Some(0) => Ok(fields),
            Some(more) => Err(Unfit::Trailing(more)),
        }
    }

    fn fields(rest: &mut &[u8]) -> Option<Self> {
        Some(Self {
            layers: u32::from_le_bytes(take(rest)?),
            identity: take(rest)?,
            config: take(rest)?,
            positions: u64::from_le_bytes(take(rest)?),
            ids: u64::from_le_bytes(take(rest)?),
            values: u64::from_le_bytes(take(rest)?),
        })
    }

    /// Bytes of a whole file with this head.
    pub fn file_len(&self) -> Option<u64> {
        let numbers = self.ids.checked_add(self.values)?.checked_mul(4)?;
        numbers.checked_add((FIXED + 2 * HASH) as u64)
    }

    /// Whether a state of this head can go on in a context of `capacity` positions of a model.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self, key: &ModelKey, capacity: usize) -> Result<(), Unfit> {
        if self.config != key.config {
            return Err(Unfit::OtherConfig);
        }
        if self.identity != key.identity {
            return Err(Unfit::OtherModel);
        }
        let layers = self.layers as usize;
        if layers != key.layers {
            return Err(Unfit::Layers {
                got: layers,
                want: key.layers,
            });
        }
        if self.ids < self.positions {
            return Err(Unfit::Inconsistent(format!(
                "{} positions, but {} ids",
                self.positions, self.ids
            )));
        }
        if key.values(self.positions) != Some(self.values) {
            return Err(Unfit::Inconsistent(format!(
                "{} values for {} positions",
                self.values, self.positions
            )));
        }
        // Both are at most a quarter of the file's length.
        let (positions, needed) = (self.positions as usize, self.ids as usize);
        if positions > capacity {
            return Err(Unfit::Full {
                positions,
                capacity,
                needed: needed + 1,
            });
        }
        Ok(())
    }
}

/// The next bytes.
fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*taken)
}
