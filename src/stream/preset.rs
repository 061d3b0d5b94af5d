//! Presets: memory budgets with a name. What a budget turns into is the plan's business.

use std::str::FromStr;

/// A size of plan. Smaller ones read more a token; the output is the same.
///
/// A byte of the trunk's budget saves exactly one byte a token. A byte of the experts' cache saves about half a byte at
/// a few GB and less and less from there, so the trunk comes first, and large caches come only after the whole trunk
/// is in memory. Against engines that hold embedding and head (4.7 GB) and rings of layers, the same memory pays for
/// more pins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preset {
    /// The smallest plan: nothing pinned, four expert slots. Under 1 GB on the released model with a short context.
    Ultra,
    /// A machine of 8 to 16 GB: trunk 3 GB, cache 1 GB.
    Laptop,
    /// About 32 GB in all: trunk 28 GB, cache 2 GB.
    Desktop,
    /// About 96 GB in all: trunk 90 GB, cache 4 GB.
    Workstation,
    /// The whole trunk in memory, so that only experts are read; cache 13 GB. About 126 GB in all.
    Server,
    /// The whole trunk and as much cache as was ever measured to be of use, 109 GB. About 222 GB in all.
    Max,
    /// What suits the machine.
    #[default]
    Auto,
}

/// Memory for the two parts of a plan that can be chosen, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budgets {
    /// For pins and ring together.
    pub trunk: u64,
    /// For expert slots.
    pub cache: u64,
}

impl Preset {
    /// All of them, smallest first, `auto` last.
    pub const ALL: [Self; 7] = [
        Self::Ultra,
        Self::Laptop,
        Self::Desktop,
        Self::Workstation,
        Self::Server,
        Self::Max,
        Self::Auto,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ultra => "ultra",
            Self::Laptop => "laptop",
            Self::Desktop => "desktop",
            Self::Workstation => "workstation",
            Self::Server => "server",
            Self::Max => "max",
            Self::Auto => "auto",
        }
    }

    /// Its budgets; none for `auto`, which depends on the machine. `u64::MAX` is all that the model can use.
    pub fn budgets(self) -> Option<Budgets> {
        const GB: u64 = 1_000_000_000;
        let (trunk, cache) = match self {
            // The smallest plan. A megabyte holds no expert of the release, and some of the demo's, so that it too shows what
            // is retained.
            Self::Ultra => (0, 1_000_000),
            Self::Laptop => (3 * GB, GB),
            Self::Desktop => (28 * GB, 2 * GB),
            Self::Workstation => (90 * GB, 4 * GB),
            Self::Server => (u64::MAX, 13 * GB),
            Self::Max => (u64::MAX, 109 * GB),
            Self::Auto => return None,
        };
        Some(Budgets { trunk, cache })
    }

    /// How many copies of the state a chat keeps in memory. Where there are none, states come back from the drive.
    pub fn kept_states(self) -> usize {
        match self {
            Self::Ultra => 0,
            Self::Laptop | Self::Auto => 1,
            _ => 2,
        }
    }
}

impl std::fmt::Display for Preset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Preset {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|preset| preset.name() == name);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("there is no preset {name:?}; the presets are {names}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for preset in Preset::ALL {
            assert_eq!(preset.name().parse(), Ok(preset));
        }
        let error = "huge".parse::<Preset>().unwrap_err();
        assert!(
            error.contains("huge") && error.contains("ultra, laptop"),
            "{error}"
        );
    }

    #[test]
    fn each_preset_is_larger_than_the_one_before() {
        let budgets: Vec<Budgets> = Preset::ALL
            .into_iter()
            .filter_map(Preset::budgets)
            .collect();
        assert_eq!(budgets.len(), 6);
        for pair in budgets.windows(2) {
            assert!(pair[0].trunk <= pair[1].trunk && pair[0].cache < pair[1].cache);
        }
    }
}
