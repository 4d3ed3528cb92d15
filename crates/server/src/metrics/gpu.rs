//! GPUs, where there are any: NVIDIA's own library, found when the server starts.

use nvml_wrapper::{Nvml, error::NvmlError};

use super::{page::Page, table as t};

/// NVIDIA's library, if it is there.
#[derive(Debug)]
pub(super) struct Gpus(Option<Nvml>);

/// One GPU at this moment.
struct Gpu {
    uuid: String,
    number: String,
    utilization: f64,
    used: u64,
    total: u64,
}

impl Gpus {
    pub(super) fn find() -> Self {
        let found = Nvml::init();
        if let Err(error) = &found {
            tracing::debug!(%error, "no GPU is looked at");
        }
        Self(found.ok())
    }

    pub(super) fn write(&self, page: &mut Page) {
        let Some(nvml) = &self.0 else { return };
        let all: Vec<Gpu> = (0..nvml.device_count().unwrap_or(0))
            .filter_map(|number| look_at(nvml, number).ok())
            .collect();
        if all.is_empty() {
            return;
        }
        let mut series = page.family(&t::GPU_USE);
        for gpu in &all {
            series.value(&[&gpu.number], gpu.utilization);
        }
        let mut series = page.family(&t::GPU_USED);
        for gpu in &all {
            series.count(&[&gpu.number], gpu.used);
        }
        let mut series = page.family(&t::GPU_TOTAL);
        for gpu in &all {
            series.count(&[&gpu.number], gpu.total);
        }
        let mut series = page.family(&t::NV_GPU_USE);
        for gpu in &all {
            series.value(&[&gpu.uuid], gpu.utilization);
        }
        let mut series = page.family(&t::NV_GPU_USED);
        for gpu in &all {
            series.count(&[&gpu.uuid], gpu.used);
        }
        let mut series = page.family(&t::NV_GPU_TOTAL);
        for gpu in &all {
            series.count(&[&gpu.uuid], gpu.total);
        }
    }
}

fn look_at(nvml: &Nvml, number: u32) -> Result<Gpu, NvmlError> {
    let device = nvml.device_by_index(number)?;
    let memory = device.memory_info()?;
    Ok(Gpu {
        uuid: device.uuid()?,
        number: number.to_string(),
        utilization: f64::from(device.utilization_rates()?.gpu) / 100.0,
        used: memory.used,
        total: memory.total,
    })
}
