//! Where decoded samples go.

/// Takes samples as they are decoded.
pub trait Sink {
    /// Takes the next frames: one plane per channel, all of the same length and never empty.
    ///
    /// One call brings at most a few thousand frames, but one `push` may bring many calls: whoever
    /// wants to bound what comes back bounds what is pushed.
    fn take(&mut self, planes: &[&[f32]]);
}

/// Collects everything, one `Vec` per channel.
impl Sink for Vec<Vec<f32>> {
    fn take(&mut self, planes: &[&[f32]]) {
        self.resize_with(planes.len(), Vec::new);
        for (all, plane) in self.iter_mut().zip(planes) {
            all.extend_from_slice(plane);
        }
    }
}

/// Passes everything to a closure.
impl<F: FnMut(&[&[f32]])> Sink for F {
    fn take(&mut self, planes: &[&[f32]]) {
        self(planes);
    }
}

/// Gives owned planes to a sink.
pub(crate) fn give(planes: &[Vec<f32>], sink: &mut dyn Sink) {
    let planes: Vec<&[f32]> = planes.iter().map(Vec::as_slice).collect();
    sink.take(&planes);
}
