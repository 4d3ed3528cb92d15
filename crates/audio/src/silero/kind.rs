//! Which instructions a detector uses: the best that the CPU has.

#[cfg(target_arch = "x86_64")]
use super::x86::{Avx2, Avx512};
use super::{
    network::{Network, Step},
    simd::{Portable, Simd},
};

#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    Portable,
}

impl Kind {
    /// Everything that this CPU has, the best first.
    pub(super) fn every() -> impl Iterator<Item = Self> {
        #[cfg(target_arch = "x86_64")]
        let special = [Avx512::detect().map(Self::Avx512), Avx2::detect().map(Self::Avx2)];
        #[cfg(not(target_arch = "x86_64"))]
        let special = [];
        special.into_iter().flatten().chain([Self::Portable])
    }

    pub(super) fn best() -> Self {
        Self::every().next().unwrap_or(Self::Portable)
    }

    pub(super) fn run(self, network: &mut Network, step: Step<'_, '_>) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(simd) => simd.run(network, step),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(simd) => simd.run(network, step),
            Self::Portable => Portable.run(network, step),
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) => "avx512",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => "avx2",
            Self::Portable => "portable",
        }
    }
}
