//! Results that come before the last, on their way to whoever waits for them.

use paceline_batch::Rider;
use paceline_types::Tensor;
use smallvec::SmallVec;
use tokio::sync::mpsc::{Sender, error::TrySendError};

use crate::{BackendError, Item, Output, Outputs, form::Form};

/// Where an item's early results go. Bounded: whoever does not read them loses the rest.
pub type EarlySender = Sender<Output>;

/// Results that come before the last.
#[derive(Debug, Clone, Default)]
pub struct EarlyOutputs {
    /// Stacked as the call's last outputs would be. A row that fails has no further results.
    pub outputs: Outputs,
    /// Rows for which there is nothing this time.
    pub silent: Vec<usize>,
}

/// Takes early results, and says whether anybody wants more.
pub type Early<'a> = dyn FnMut(EarlyOutputs) -> bool + 'a;

/// Who in a call still listens.
pub(crate) struct Listeners<'a> {
    form: &'a Form,
    riders: &'a [Rider<'a, Item, Vec<Tensor>>],
    item_rows: &'a [usize],
    rows: usize,
    states: SmallVec<[Listening; 2]>,
    /// Whether anybody has had a result, so that the call cannot be run again.
    pub(crate) has_delivered: bool,
}

enum Listening {
    Yes,
    /// It never did, or has left.
    No,
    TooSlow,
    Failed(String),
}

impl<'a> Listeners<'a> {
    pub(crate) fn new(
        form: &'a Form,
        riders: &'a [Rider<'a, Item, Vec<Tensor>>],
        item_rows: &'a [usize],
        rows: usize,
    ) -> Self {
        let listens = |rider: &Rider<'_, Item, _>| match rider.item.early {
            Some(_) => Listening::Yes,
            None => Listening::No,
        };
        let states = riders.iter().map(listens).collect();
        Self { form, riders, item_rows, rows, states, has_delivered: false }
    }

    /// Hands each item its share, and says whether anybody wants more.
    pub(crate) fn deliver(&mut self, early: EarlyOutputs) -> bool {
        let EarlyOutputs { outputs: Outputs { tensors, failed }, silent } = early;
        let shares = if tensors.is_empty() {
            Ok(Vec::new())
        } else {
            self.form.scatter(tensors, self.riders, self.item_rows, self.rows)
        };
        let (mut shares, wrong) = match shares {
            Ok(shares) => (shares.into_iter(), None),
            Err(error) => (Vec::new().into_iter(), Some(error.to_string())),
        };
        let mut first_row = 0;
        for (rider, state) in self.riders.iter().zip(&mut self.states) {
            let mut own = first_row..first_row + rider.rows;
            first_row = own.end;
            let share = shares.next();
            let (Listening::Yes, Some(sender)) = (&state, &rider.item.early) else { continue };
            let failed = failed.iter().find(|(row, _)| own.contains(row));
            if let Some(message) = wrong.as_ref().or(failed.map(|(_, message)| message)) {
                *state = Listening::Failed(message.clone());
            } else if let Some(share) = share
                && own.any(|row| !silent.contains(&row))
            {
                match sender.try_send(share.outputs) {
                    Ok(()) => self.has_delivered = true,
                    Err(TrySendError::Full(_)) => *state = Listening::TooSlow,
                    Err(TrySendError::Closed(_)) => *state = Listening::No,
                }
            } else if sender.is_closed() {
                *state = Listening::No;
            }
        }
        self.states.iter().any(|state| matches!(state, Listening::Yes))
    }

    /// Why the item at a place has no good end, if it has not.
    pub(crate) fn trouble(&self, at: usize) -> Option<BackendError> {
        match &self.states[at] {
            Listening::Yes | Listening::No => None,
            Listening::TooSlow => Some(BackendError::SlowReader),
            Listening::Failed(message) => Some(BackendError::Failed(message.clone())),
        }
    }
}
