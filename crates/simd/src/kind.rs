//! Which instructions a computation uses: the best that the CPU has.

#[cfg(target_arch = "x86_64")]
use crate::x86::{Avx2, Avx512};
use crate::{Kernel, Simd, simd::Portable};

/// A kind of instructions that this CPU has.
#[derive(Debug, Clone, Copy)]
pub struct Kind(Token);

#[derive(Debug, Clone, Copy)]
enum Token {
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    Portable,
}

impl Kind {
    /// Everything that this CPU has, the best first.
    pub fn every() -> impl Iterator<Item = Self> {
        #[cfg(target_arch = "x86_64")]
        let special = [Avx512::detect().map(Token::Avx512), Avx2::detect().map(Token::Avx2)];
        #[cfg(not(target_arch = "x86_64"))]
        let special: [Option<Token>; 0] = [];
        special.into_iter().flatten().chain([Token::Portable]).map(Self)
    }

    /// The best that this CPU has.
    #[must_use]
    pub fn best() -> Self {
        Self::every().next().unwrap_or(Self(Token::Portable))
    }

    /// Computes something with these instructions.
    pub fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Token::Avx512(simd) => simd.run(kernel),
            #[cfg(target_arch = "x86_64")]
            Token::Avx2(simd) => simd.run(kernel),
            Token::Portable => Portable.run(kernel),
        }
    }

    /// Their name: `avx512`, `avx2` or `portable`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Token::Avx512(_) => "avx512",
            #[cfg(target_arch = "x86_64")]
            Token::Avx2(_) => "avx2",
            Token::Portable => "portable",
        }
    }
}
