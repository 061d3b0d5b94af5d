//! Which instruction set a kernel runs with. Only the choice; the arithmetic is the same everywhere.

/// An instruction set that this machine has. It cannot be made for one that is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Isa(pub(super) Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// What the target's baseline offers. Without a fused instruction there, `mul_add` calls the platform's `fmaf`:
    /// slow, and exact.
    Portable,
    /// AVX2 with fused multiply-add.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512, with twice the vector registers and twice their width.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Isa {
    /// The instruction set that every machine of this target has.
    pub fn portable() -> Self {
        Self(Kind::Portable)
    }

    /// AVX2 with FMA, if this machine has them.
    pub fn avx2() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma")
        {
            return Some(Self(Kind::Avx2));
        }
        None
    }

    /// AVX-512, if this machine has it, and what [`Self::avx2`] asks for.
    pub fn avx512() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        if Self::avx2().is_some()
            && std::arch::is_x86_feature_detected!("avx512f")
            && std::arch::is_x86_feature_detected!("avx512vl")
        {
            return Some(Self(Kind::Avx512));
        }
        None
    }

    /// The fastest this machine has.
    pub fn detect() -> Self {
        let wide = Self::avx512().or_else(Self::avx2);
        wide.unwrap_or(Self::portable())
    }

    /// Every instruction set this machine has, the portable one first.
    pub fn all() -> Vec<Self> {
        let mut all = vec![Self::portable()];
        all.extend(Self::avx2());
        all.extend(Self::avx512());
        all
    }

    /// Features of this processor that kernels are written for or hashing uses, and whether it has them.
    pub fn features() -> Vec<(&'static str, bool)> {
        #[cfg(target_arch = "x86_64")]
        return vec![
            ("avx2", std::arch::is_x86_feature_detected!("avx2")),
            ("fma", std::arch::is_x86_feature_detected!("fma")),
            ("avx512f", std::arch::is_x86_feature_detected!("avx512f")),
            ("avx512vl", std::arch::is_x86_feature_detected!("avx512vl")),
            ("sha", std::arch::is_x86_feature_detected!("sha")),
        ];
        #[cfg(target_arch = "aarch64")]
        return vec![("neon", std::arch::is_aarch64_feature_detected!("neon"))];
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        return Vec::new();
    }

    /// A name for reports.
    pub fn name(self) -> &'static str {
        match self.0 {
            Kind::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => "avx2+fma",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => "avx512f+vl",
        }
    }
}

/// What a kernel uses beside its body compiled anew: nothing.
#[derive(Clone, Copy)]
pub(super) struct Portable;

/// What a kernel uses beside its body compiled anew: byte shuffles of AVX2, which the machine has.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(super) struct Shuffles(());

#[cfg(target_arch = "x86_64")]
impl Shuffles {
    /// # Safety
    /// The machine has AVX2.
    #[inline(always)]
    #[allow(unsafe_code)]
    pub(super) unsafe fn assume() -> Self {
        Self(())
    }
}

/// Defines a kernel from its one body: `fn name(isa, arguments)` runs the body compiled for that instruction set. A body that is
/// `shown` gets [`Portable`] or [`Shuffles`] before its arguments.
macro_rules! kernel {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) = $body:path, shown;) => {
        $(#[$meta])*
        $vis fn $name(isa: $crate::kernels::Isa, $($arg: $ty),*) {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            #[allow(unsafe_code)]
            fn avx2($($arg: $ty),*) {
                // SAFETY: this is only called where AVX2 is.
                $body(unsafe { $crate::kernels::isa::Shuffles::assume() }, $($arg),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,avx512f,avx512vl")]
            #[allow(unsafe_code)]
            fn avx512($($arg: $ty),*) {
                // SAFETY: this is only called where AVX2 is.
                $body(unsafe { $crate::kernels::isa::Shuffles::assume() }, $($arg),*)
            }
            kernel!(@run isa, $body($crate::kernels::isa::Portable, $($arg),*), ($($arg),*))
        }
    };
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? = $body:path;) => {
        $(#[$meta])*
        #[allow(clippy::too_many_arguments)]
        $vis fn $name(isa: $crate::kernels::Isa, $($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn avx2($($arg: $ty),*) $(-> $ret)? {
                $body($($arg),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,avx512f,avx512vl")]
            fn avx512($($arg: $ty),*) $(-> $ret)? {
                $body($($arg),*)
            }
            kernel!(@run isa, $body($($arg),*), ($($arg),*))
        }
    };
    // Calls what was compiled for an instruction set.
    (@run $isa:ident, $portable:expr, ($($arg:ident),*)) => {
        match $isa.0 {
            $crate::kernels::isa::Kind::Portable => $portable,
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Isa` holds `Avx2` only where the processor reported AVX2 and FMA.
            #[allow(unsafe_code)]
            $crate::kernels::isa::Kind::Avx2 => unsafe { avx2($($arg),*) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Isa` holds `Avx512` only where the processor reported all four.
            #[allow(unsafe_code)]
            $crate::kernels::isa::Kind::Avx512 => unsafe { avx512($($arg),*) },
        }
    };
}
