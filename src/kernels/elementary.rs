//! exp, sigmoid and tanh in fused f32 steps: one implementation for every machine, at most 2 ulp from the true
//! value. The platform's own functions differ between systems in the last bit, so none is called.

/// `1.5 * 2^23`: added to a small number it leaves that number's nearest integer in the low bits.
const ROUND: f32 = 12_582_912.0;
/// ln 2 in two parts; the first has few enough bits that `n * LN2_HIGH` is exact for every exponent here.
const LN2_HIGH: f32 = 0.693_359_4;
const LN2_LOW: f32 = -2.121_944_4e-4;

/// `x = n ln 2 + r` for |x| of at most 128: gives `(n, r, e^r - 1 - r)`.
#[inline(always)]
fn reduced(x: f32) -> (i32, f32, f32) {
    let shifted = x.mul_add(std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = n.mul_add(-LN2_LOW, n.mul_add(-LN2_HIGH, x));
    // The series of (e^r - 1 - r) / r². At |r| <= ln2 / 2 the first term left out is below 1e-8.
    let mut q = 1.0 / 5040.0;
    q = r.mul_add(q, 1.0 / 720.0);
    q = r.mul_add(q, 1.0 / 120.0);
    q = r.mul_add(q, 1.0 / 24.0);
    q = r.mul_add(q, 1.0 / 6.0);
    q = r.mul_add(q, 0.5);
    let n = (shifted.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
    (n, r, r * r * q)
}

/// `2^n` for n of -126 to 127.
#[inline(always)]
fn power(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

/// e^x. Underflows to zero, overflows to infinity, keeps NaN.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    // Beyond these bounds the result is already zero or infinite.
    let (n, r, rest) = reduced(x.clamp(-104.0, 89.0));
    // 1 + r is rounded; what it lost is added with the rest.
    let leading = 1.0 + r;
    let mantissa = leading + (rest + (r - (leading - 1.0)));
    // In two steps, since 2^n itself may be out of range; only the last one can round.
    let half = n >> 1;
    mantissa * power(half) * power(n.wrapping_sub(half))
}

/// `1 / (1 + e^-x)`, without overflow on either side.
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    let e = exp(-x.abs());
    let whole = 1.0 + e;
    let y = if x < 0.0 { e } else { 1.0 } / whole;
    // 1 + e is rounded; the quotient is corrected by what it lost, times 1 / (1 + e).
    let lost = e - (whole - 1.0);
    let inverse = if x < 0.0 { 1.0 - y } else { y };
    (-lost * inverse).mul_add(y, y)
}

/// The hyperbolic tangent, from `t = e^(2|x|) - 1` as `t / (t + 2)`.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    // From 10 on the quotient rounds to one.
    let (n, r, rest) = reduced(2.0 * x.abs().min(10.0));
    let scale = power(n);
    let t = scale.mul_add(r + rest, scale - 1.0);
    let whole = t + 2.0;
    let y = t / whole;
    // As in `sigmoid`: corrected by what the denominator lost, times its inverse, (1 - y) / 2.
    let lost = if t < 2.0 {
        t - (whole - 2.0)
    } else {
        2.0 - (whole - t)
    };
    let y = (-lost * (0.5 - 0.5 * y)).mul_add(y, y).copysign(x);
    if x.is_nan() { x } else { y }
}

kernel! {
    /// `y_i *= sigmoid(g_i)`: an output gate.
    pub fn gate(y: &mut [f32], g: &[f32]) = gate_body;
}

#[inline(always)]
fn gate_body(y: &mut [f32], g: &[f32]) {
    for (y, g) in y.iter_mut().zip(g) {
        *y *= sigmoid(*g);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Isa;
    use super::*;

    /// Distance in units of the last place of `want` rounded to f32.
    fn ulps(got: f32, want: f64) -> f64 {
        let nearest = want as f32;
        if got.to_bits() == nearest.to_bits() || (got.is_nan() && want.is_nan()) {
            return 0.0;
        }
        if nearest.is_infinite() || got.is_infinite() {
            return f64::INFINITY;
        }
        let a = nearest.abs();
        let ulp = f64::from(f32::from_bits(a.to_bits() + 1)) - f64::from(a);
        (f64::from(got) - want).abs() / ulp
    }

    fn sigmoid64(x: f64) -> f64 {
        if x < 0.0 {
            x.exp() / (1.0 + x.exp())
        } else {
            1.0 / (1.0 + (-x).exp())
        }
    }

    /// The worst distance over every `step`th f32 pattern, and where.
    fn worst(step: usize) -> [(f64, f32); 3] {
        let mut worst = [(0.0, 0.0f32); 3];
        for bits in (0..=u32::MAX).step_by(step) {
            let x = f32::from_bits(bits);
            let wide = f64::from(x);
            let found = [
                ulps(exp(x), wide.exp()),
                ulps(sigmoid(x), sigmoid64(wide)),
                ulps(tanh(x), wide.tanh()),
            ];
            for (worst, found) in worst.iter_mut().zip(found) {
                if found > worst.0 {
                    *worst = (found, x);
                }
            }
        }
        worst
    }

    #[test]
    fn every_function_is_within_two_ulp_of_f64() {
        // A prime step over all bit patterns: all exponents and signs, infinities, NaN, subnormals.
        for (name, (ulps, x)) in ["exp", "sigmoid", "tanh"].iter().zip(worst(4099)) {
            println!("{name}: worst {ulps:.3} ulp at {x:e}");
            assert!(ulps <= 2.0, "{name}({x:e}) is {ulps} ulp off");
        }
    }

    /// All four billion patterns: a minute or two. `cargo test --release --lib every_single_pattern -- --ignored --nocapture`
    #[test]
    #[ignore = "minutes long; the sampled test above runs always"]
    fn every_single_pattern_is_within_two_ulp_of_f64() {
        for (name, (ulps, x)) in ["exp", "sigmoid", "tanh"].iter().zip(worst(1)) {
            println!("{name}: worst {ulps:.3} ulp at {x:e}");
            assert!(ulps <= 2.0, "{name}({x:e}) is {ulps} ulp off");
        }
    }

    #[test]
    fn limits_are_what_they_must_be() {
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp(f32::INFINITY), f32::INFINITY);
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(sigmoid(f32::INFINITY), 1.0);
        assert_eq!(sigmoid(f32::NEG_INFINITY), 0.0);
        assert_eq!(sigmoid(0.0), 0.5);
        assert_eq!(tanh(f32::INFINITY), 1.0);
        assert_eq!(tanh(f32::NEG_INFINITY), -1.0);
        assert_eq!(tanh(-0.0).to_bits(), (-0.0f32).to_bits());
        for f in [exp, sigmoid, tanh] {
            assert!(f(f32::NAN).is_nan());
        }
    }

    #[test]
    fn a_gate_has_the_same_bits_on_every_instruction_set() {
        let g: Vec<f32> = (0..4001).map(|i| (i as f32 - 2000.0) * 0.06).collect();
        let once = |isa| {
            let mut y: Vec<f32> = (0..4001).map(|i| 1.0 + i as f32 * 1e-3).collect();
            gate(isa, &mut y, &g);
            y.iter().map(|v| v.to_bits()).collect::<Vec<_>>()
        };
        for isa in Isa::all() {
            assert_eq!(once(isa), once(Isa::portable()));
        }
    }
}
