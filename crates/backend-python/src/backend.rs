//! One instance of a Python model, as the executor sees it.

use std::{
    cell::Cell,
    sync::{Arc, mpsc::sync_channel},
    time::Duration,
};

use paceline_backend::{Backend, BackendError, Call, Early, Health, Outputs, StackedCall};
use paceline_types::Signature;
use smallvec::SmallVec;

use crate::{
    PythonOptions,
    declared::Declared,
    desk::{Desk, WarmUp},
    frame::Expected,
    link::{CallError, Input, Lost},
    supervisor::Supervisor,
};

/// One instance of a Python model: a worker process, kept alive. Dropping it ends the process.
#[derive(Debug)]
pub struct PythonBackend {
    desk: Arc<Desk>,
    declared: Declared,
    call_timeout: Duration,
    load_timeout: Duration,
    instant: bool,
    retry_safe: bool,
    has_warm_up: bool,
}

impl PythonBackend {
    /// Starts a worker and waits until it has loaded its model.
    ///
    /// # Errors
    ///
    /// When the interpreter cannot be started, or the model not be loaded; says what the model
    /// said.
    pub fn load(options: &PythonOptions, instance: usize) -> Result<Self, BackendError> {
        let load = |error: std::io::Error| BackendError::Load(error.to_string());
        let desk = Arc::new(Desk::new().map_err(load)?);
        let (first, loaded) = sync_channel(1);
        let supervisor = Supervisor {
            options: Arc::new(options.clone()),
            instance,
            desk: Arc::clone(&desk),
            declared: None,
        };
        std::thread::Builder::new()
            .name(format!("{}-{instance}-worker", options.name))
            .spawn(move || supervisor.run(&first))
            .map_err(load)?;
        let declared = loaded
            .recv()
            .unwrap_or_else(|_| Err(BackendError::Load("its supervisor is gone".to_owned())))?;
        Ok(Self {
            desk,
            declared,
            call_timeout: options.call_timeout,
            load_timeout: options.load_timeout,
            instant: options.instant,
            retry_safe: options.retry_safe,
            has_warm_up: false,
        })
    }

    fn call(
        &self,
        inputs: &[Input<'_>],
        rows: usize,
        early: &mut Early<'_>,
    ) -> Result<Outputs, BackendError> {
        let Signature { outputs, batched, .. } = &self.declared.signature;
        let expected = Expected { outputs, batched: *batched, rows };
        let may_retry = Cell::new(self.retry_safe);
        loop {
            let mut taken = self.desk.take(self.call_timeout)?;
            let ran = taken.link.call(inputs, &expected, &mut |partial| {
                // What was handed out cannot be taken back.
                may_retry.set(false);
                early(partial)
            });
            match ran {
                Ok(outputs) => {
                    self.desk.put_back(taken, true);
                    return Ok(outputs);
                }
                Err(CallError::Model(message)) => {
                    self.desk.put_back(taken, true);
                    return Err(BackendError::Failed(message));
                }
                Err(CallError::Lost(lost)) => {
                    let cause = match lost {
                        Lost::Closed => self.desk.bury(taken, None),
                        ours => self.desk.bury(taken, Some(ours.to_string())),
                    };
                    if !may_retry.replace(false) {
                        return Err(BackendError::Crashed(cause));
                    }
                }
            }
        }
    }
}

impl Backend for PythonBackend {
    fn signature(&self) -> &Signature {
        &self.declared.signature
    }

    fn max_rows(&self) -> Option<usize> {
        self.declared.max_rows
    }

    fn health(&self) -> Health {
        self.desk.health().clone()
    }

    fn is_instant(&self) -> bool {
        self.instant && !self.declared.streams
    }

    fn ready(&mut self) {
        self.desk.wait_until_up(self.load_timeout);
    }

    fn run(&mut self, call: &Call<'_>) -> Result<Outputs, BackendError> {
        let inputs: Vec<Input<'_>> = call.inputs.iter().map(Input::from).collect();
        // Nobody listens for early results here, so the first is the end of the stream.
        let outputs = self.call(&inputs, call.rows, &mut |_| false)?;
        if !self.has_warm_up {
            // The first call of all is the executor's trial run, with made-up inputs.
            self.has_warm_up = true;
            self.desk.set_warm_up(WarmUp { inputs: call.inputs.to_vec(), rows: call.rows });
        }
        Ok(outputs)
    }

    fn streams(&self) -> bool {
        self.declared.streams
    }

    fn run_stacked(
        &mut self,
        call: &StackedCall<'_>,
        early: &mut Early<'_>,
    ) -> Result<Outputs, BackendError> {
        let inputs: SmallVec<[Input<'_>; 4]> = call.inputs.iter().map(Input::from).collect();
        self.call(&inputs, call.rows, early)
    }
}

impl Drop for PythonBackend {
    fn drop(&mut self) {
        self.desk.close();
    }
}
