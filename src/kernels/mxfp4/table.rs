//! What a four-bit code stands for under each scale: sixteen values a scale, which are all that a group's weights can be.

/// The values of one scale. They have two significant bits, so the upper half of an f32 holds them, subnormal ones too;
/// its two bytes stand apart, as byte shuffles look them up.
#[repr(align(32))]
pub(super) struct Table {
    /// The lower of the two bytes, by code.
    pub lower: [u8; 16],
    /// The upper.
    pub upper: [u8; 16],
}

impl Table {
    /// The upper half of the value of a code, 0 to 15.
    #[inline(always)]
    pub fn bits(&self, code: usize) -> u16 {
        u16::from_be_bytes([self.upper[code], self.lower[code]])
    }
}

/// E2M1: a sign, two bits of exponent, one of mantissa.
const CODES: [f32; 16] = [
    0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0,
];

/// By scale byte: code times `2^(byte - 127)`. The sign stays on zero; a product too large for f32 is infinite. Byte 255 would
/// be a NaN; its whole group counts as zero.
pub(super) static TABLES: [Table; 256] = {
    const NONE: Table = Table {
        lower: [0; 16],
        upper: [0; 16],
    };
    let mut tables = [NONE; 256];
    let mut byte = 0;
    while byte < 256 {
        let scale = match byte {
            0 => f32::from_bits(0x0040_0000),
            255 => 0.0,
            _ => f32::from_bits((byte as u32) << 23),
        };
        let mut code = 0;
        while code < 16 {
            let [upper, lower, ..] = (CODES[code] * scale).to_bits().to_be_bytes();
            tables[byte].lower[code] = lower;
            tables[byte].upper[code] = upper;
            code += 1;
        }
        byte += 1;
    }
    tables
};
