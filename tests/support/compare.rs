//! How far results are from what was expected, in tolerances.

/// `|got - want| <= abs + rel |want|`, element by element.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    pub abs: f64,
    pub rel: f64,
}

/// For one operator in f32.
pub const OPERATOR: Tolerance = Tolerance {
    abs: 1e-5,
    rel: 1e-4,
};

impl Tolerance {
    /// A distance that is the same for every element.
    pub fn absolute(abs: f64) -> Self {
        Self { abs, rel: 0.0 }
    }

    /// The worst element's distance as a share of what is allowed.
    pub fn share(&self, got: &[f32], want: &[f32]) -> f64 {
        assert_eq!(got.len(), want.len(), "lengths");
        assert!(!want.is_empty(), "nothing to compare");
        let share = |(got, want): (&f32, &f32)| {
            let (got, want) = (f64::from(*got), f64::from(*want));
            let share = (got - want).abs() / (self.abs + self.rel * want.abs());
            // Neither NaN nor infinity is near anything.
            if share.is_nan() { f64::INFINITY } else { share }
        };
        got.iter().zip(want).map(share).fold(0.0, f64::max)
    }

    /// Fails the test when an element is too far away.
    pub fn check(&self, what: &str, got: &[f32], want: &[f32]) {
        let worst = self.share(got, want);
        println!("{what}: worst share of the tolerance {worst:.4}");
        assert!(worst <= 1.0, "{what}: {worst} tolerances away");
    }
}

/// The bits, so that equal means equal: `==` takes 0.0 for -0.0.
pub fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

/// How many f32 numbers two values are apart.
pub fn ulps(a: f32, b: f32) -> u64 {
    assert!(!a.is_nan() && !b.is_nan(), "{a} {b}");
    // In this order the numbers ascend by one from each to the next, and both zeros are 0.
    let place = |v: f32| {
        let magnitude = i64::from(v.to_bits() & 0x7fff_ffff);
        if v.is_sign_negative() {
            -magnitude
        } else {
            magnitude
        }
    };
    place(a).abs_diff(place(b))
}
