//! Seeded changes to the bytes of a file: the same seed gives the same file. What the file is, is not known here.

use super::draw::XorShift;

/// Numbers at the borders of types, and what is no number where one is expected.
const NUMBERS: [&str; 16] = [
    "0",
    "1",
    "-1",
    "127",
    "256",
    "65536",
    "2147483648",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "0.5",
    "1e400",
    "null",
    "\"7\"",
];

/// Bytes that mean something in JSON, TOML, Markdown and terminals.
const MARKS: &[u8] = b"{}[]\",:\\/0123456789-+.eE ntf\n\t=#*`_|<>&;\x1b\x07\0\x7f";

/// What nests when it is repeated.
const NESTS: [&str; 6] = ["[", "{\"a\":", "> ", "- ", "[[", "<|open|>"];

/// Changes files.
#[derive(Clone, Debug)]
pub struct Mutator<'w> {
    draw: XorShift,
    /// Words that mean something in this format; they are put anywhere.
    words: &'w [&'w str],
}

impl<'w> Mutator<'w> {
    /// By a seed, with the words of a format.
    pub fn new(seed: u32, words: &'w [&'w str]) -> Self {
        // Neighbouring seeds are spread first: a xorshift's first numbers would be alike.
        let mut draw = XorShift::new(seed.wrapping_mul(0x9E37_79B9) ^ 0x5bd1_e995);
        for _ in 0..4 {
            draw.bits();
        }
        Self { draw, words }
    }

    /// A number below `end`, for who chooses among files.
    pub fn below(&mut self, end: usize) -> usize {
        self.draw.below(end)
    }

    /// One to four changes.
    pub fn mutate(&mut self, file: &mut Vec<u8>) {
        for _ in 0..=self.draw.below(4) {
            self.change(file);
        }
    }

    fn place(&mut self, file: &[u8]) -> usize {
        self.draw.below(file.len() + 1)
    }

    fn span(&mut self, file: &[u8], most: usize) -> std::ops::Range<usize> {
        let from = self.place(file);
        from..(from + 1 + self.draw.below(most)).min(file.len())
    }

    fn change(&mut self, file: &mut Vec<u8>) {
        let at = self.place(file);
        match self.draw.below(13) {
            0 => {
                let bit = 1 << self.draw.below(8);
                file.get_mut(at).into_iter().for_each(|byte| *byte ^= bit);
            }
            1 => {
                let value = self.draw.byte();
                file.get_mut(at).into_iter().for_each(|byte| *byte = value);
            }
            2 => {
                let value = MARKS[self.draw.below(MARKS.len())];
                file.get_mut(at).into_iter().for_each(|byte| *byte = value);
            }
            3 => {
                let bytes: Vec<u8> = (0..=self.draw.below(8)).map(|_| self.draw.byte()).collect();
                file.splice(at..at, bytes);
            }
            4 => drop(file.drain(self.span(file, 300))),
            5 => {
                let copy = file[self.span(file, 300)].to_vec();
                let times = [1, 1, 2, 40][self.draw.below(4)];
                file.splice(at..at, copy.repeat(times));
            }
            6 => file.truncate(at),
            7 | 8 => {
                let word = match self.words.len() {
                    0 => NUMBERS[self.draw.below(NUMBERS.len())],
                    count => self.words[self.draw.below(count)],
                };
                let over = self.draw.below(2) * word.len();
                file.splice(at..(at + over).min(file.len()), word.bytes());
            }
            9 => self.number(file),
            10 => {
                let border = [
                    0,
                    1,
                    0x7fff_ffff,
                    0xffff_ffff,
                    1 << 40,
                    i64::MAX as u64,
                    u64::MAX,
                ];
                let number = border[self.draw.below(border.len())].to_le_bytes();
                let width = [4, 8][self.draw.below(2)];
                if let Some(place) = file.get_mut(at / 4 * 4..at / 4 * 4 + width) {
                    place.copy_from_slice(&number[..width]);
                }
            }
            11 => {
                let moved: Vec<u8> = file.drain(self.span(file, 200)).collect();
                let to = self.place(file);
                file.splice(to..to, moved);
            }
            _ => {
                let nest = NESTS[self.draw.below(NESTS.len())];
                let deep = [3, 130, 3000][self.draw.below(3)];
                file.splice(at..at, nest.repeat(deep).into_bytes());
            }
        }
    }

    /// Puts another number in place of one that is written in digits.
    fn number(&mut self, file: &mut Vec<u8>) {
        let digit = |byte: &u8| byte.is_ascii_digit();
        let from = self.place(file);
        let Some(first) = file[from..].iter().position(digit).map(|at| from + at) else {
            return;
        };
        let end = file[first..].iter().position(|byte| !digit(byte));
        let end = end.map_or(file.len(), |length| first + length);
        let other = NUMBERS[self.draw.below(NUMBERS.len())];
        file.splice(first..end, other.bytes());
    }
}
