//! Real workers: `CPython` and `NumPy` from `.cache/python`, which `scripts/install-python` makes.

mod agreement;
mod chaos;
mod confinement;
mod death;
mod instant;
mod items;
mod streams;
mod support;
