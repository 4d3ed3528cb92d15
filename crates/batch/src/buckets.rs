//! Length buckets: items of similar length share a call, so that little is padded.

/// How lengths are grouped.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Buckets {
    /// Not at all: items of any length share calls.
    #[default]
    None,
    /// 1, 2, 3–4, 5–8, 9–16, and so on.
    PowersOfTwo,
    /// Up to each of these edges, in rising order; longer ones share a last bucket.
    Edges(Vec<u32>),
}

impl Buckets {
    /// Most edges that may be given, so that what is kept per bucket is bounded.
    pub const MAX_EDGES: usize = 64;

    /// The number of the bucket that a length falls into.
    #[must_use]
    pub fn bucket(&self, length: u32) -> usize {
        match self {
            Self::None => 0,
            Self::PowersOfTwo => match length {
                0 => 0,
                length => (u32::BITS - (length - 1).leading_zeros()) as usize,
            },
            Self::Edges(edges) => edges.partition_point(|&edge| edge < length),
        }
    }

    /// The longest length of a bucket, where there is one.
    #[must_use]
    pub fn edge(&self, bucket: usize) -> Option<u32> {
        match self {
            Self::None => None,
            Self::PowersOfTwo => {
                u32::try_from(bucket).ok().and_then(|bits| 1_u32.checked_shl(bits))
            }
            Self::Edges(edges) => edges.get(bucket).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_length_fits_its_bucket_and_no_smaller_one(length in 1_u32.., edges in prop::collection::btree_set(1_u32.., 1..8)) {
            for buckets in [Buckets::PowersOfTwo, Buckets::Edges(edges.into_iter().collect())] {
                let bucket = buckets.bucket(length);
                prop_assert!(buckets.edge(bucket).is_none_or(|edge| length <= edge));
                prop_assert!(bucket == 0 || buckets.edge(bucket - 1).unwrap() < length);
            }
        }
    }

    #[test]
    fn an_edge_is_in_the_bucket_that_it_ends() {
        let bucket = |length| Buckets::PowersOfTwo.bucket(length);
        let given = Buckets::Edges(vec![100, 400]);

        assert_eq!([1, 2, 3, 4, 5, 8, 9].map(bucket), [0, 1, 2, 2, 3, 3, 4]);
        assert_eq!(Buckets::PowersOfTwo.edge(bucket(600)), Some(1024));
        assert_eq!([1, 100, 101, 400, 401].map(|length| given.bucket(length)), [0, 0, 1, 1, 2]);
    }
}
