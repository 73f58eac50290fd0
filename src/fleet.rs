//! Who the pods are and how busy they are.

pub mod settings;
