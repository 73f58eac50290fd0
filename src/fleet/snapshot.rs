//! An immutable view of the fleet: which pods serve which model, and which of them may be given requests.

use std::collections::BTreeSet;
use std::sync::Arc;

use foldhash::HashMap;
use tokio::time::Instant;

use super::pod::Pod;
use super::{Selector, Settings};
use crate::routing::{PodSlot, PodView};

#[derive(Default)]
pub struct Snapshot {
    pods: Vec<Arc<Pod>>,
    by_slot: Vec<Option<Arc<Pod>>>,
    models: HashMap<String, ModelPods>,
    all: ModelPods,
    uniform: bool,
}

/// The pods of one model.
#[derive(Default)]
pub struct ModelPods {
    name: String,
    /// Those that may be given requests.
    routable: Vec<Arc<Pod>>,
    served_by: Vec<Arc<Pod>>,
}

/// Which pods a request may go to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
    /// Those it has tried.
    pub exclude: &'a [PodSlot],
    /// Those whose labels it asks for.
    pub selector: Option<&'a Selector>,
    /// Running requests with which a pod gets no more.
    pub most_in_flight: Option<u32>,
}

impl Wanted<'_> {
    fn takes(&self, pod: &Pod) -> bool {
        let selected = |selector: &Selector| selector.matches(&pod.spec().labels);
        !self.exclude.contains(&pod.slot())
            && self.selector.is_none_or(selected)
            && self
                .most_in_flight
                .is_none_or(|most| pod.in_flight() < most)
    }
}

impl Snapshot {
    pub(super) fn new(pods: &[Arc<Pod>], settings: &Settings, seen: &mut BTreeSet<String>) -> Self {
        let floor = settings.health.min_available;
        let mut served: HashMap<String, Vec<Arc<Pod>>> = HashMap::default();
        for pod in pods {
            for model in served_names(pod, settings) {
                let servers = served.entry(model).or_default();
                // A name that is both told and an alias counts once.
                if !servers.iter().any(|known| Arc::ptr_eq(known, pod)) {
                    servers.push(Arc::clone(pod));
                }
            }
        }
        seen.extend(served.keys().cloned());
        for name in seen.iter() {
            served.entry(name.clone()).or_default();
        }
        // A pod that has not told yet, or never will, says nothing against the others.
        let told = pods.iter().map(|pod| sorted(pod.models()));
        let sets: BTreeSet<Vec<String>> = told.filter(|models| !models.is_empty()).collect();
        let models = served
            .into_iter()
            .map(|(name, pods)| (name.clone(), ModelPods::new(name, pods, floor)));
        Self {
            models: models.collect(),
            all: ModelPods::new(String::new(), pods.to_vec(), floor),
            uniform: sets.len() <= 1,
            by_slot: by_slot(pods),
            pods: pods.to_vec(),
        }
    }

    /// `None`: no pod has ever served a model of this name.
    pub fn model(&self, name: &str) -> Option<&ModelPods> {
        self.models.get(name)
    }

    /// Whether any pod has told, now or before, what it serves.
    pub fn knows_models(&self) -> bool {
        !self.models.is_empty()
    }

    /// Every pod, for requests that name no model.
    pub fn all(&self) -> &ModelPods {
        &self.all
    }

    /// Whether all pods that have told what they serve, serve the same models, so that any of them can take a request that names none.
    pub fn is_uniform(&self) -> bool {
        self.uniform
    }

    pub fn pod(&self, slot: PodSlot) -> Option<&Arc<Pod>> {
        self.by_slot.get(usize::from(slot.0))?.as_ref()
    }

    pub fn pods(&self) -> &[Arc<Pod>] {
        &self.pods
    }

    /// Names that a pod serves now, in order.
    pub fn model_names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.served().map(|model| model.name.as_str()).collect();
        names.sort_unstable();
        names
    }

    pub(super) fn served(&self) -> impl Iterator<Item = &ModelPods> {
        self.models
            .values()
            .filter(|model| !model.served_by.is_empty())
    }

    /// Whether any model has a pod to go to.
    pub fn ready(&self) -> bool {
        self.served().any(|model| !model.routable.is_empty())
    }
}

impl ModelPods {
    fn new(name: String, served_by: Vec<Arc<Pod>>, floor: f64) -> Self {
        Self {
            name,
            routable: routable(&served_by, floor),
            served_by,
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn served_by(&self) -> &[Arc<Pod>] {
        &self.served_by
    }

    /// Pods that may be given requests, whatever a request asks for.
    pub fn routable_count(&self) -> usize {
        self.routable.len()
    }

    /// Whether there are candidates for a request.
    pub fn has_any(&self, wanted: &Wanted<'_>) -> bool {
        self.candidates(wanted).next().is_some()
    }

    /// The candidates for a request.
    pub fn views(&self, wanted: &Wanted<'_>, with_detail: bool, out: &mut Vec<PodView>) {
        // The clock is read once, not for each pod.
        let now = Instant::now();
        out.clear();
        let candidates = self.candidates(wanted);
        out.extend(candidates.map(|pod| pod.view(now, with_detail)));
    }

    fn candidates(&self, wanted: &Wanted<'_>) -> impl Iterator<Item = &Arc<Pod>> {
        self.routable.iter().filter(|pod| wanted.takes(pod))
    }
}

/// The pods that are well; and when these are less than the floor's share, those of the others that failed last. A pod
/// that refuses connections is never kept for the floor: it could only fail.
fn routable(pods: &[Arc<Pod>], floor: f64) -> Vec<Arc<Pod>> {
    let (mut chosen, mut out): (Vec<_>, Vec<_>) =
        pods.iter().cloned().partition(|pod| pod.is_well());
    let least = (pods.len() as f64 * floor).ceil() as usize;
    if chosen.len() < least {
        out.retain(|pod| pod.may_be_kept());
        out.sort_by_key(|pod| std::cmp::Reverse(pod.failed_at()));
        out.truncate(least - chosen.len());
        chosen.append(&mut out);
    }
    chosen
}

fn served_names(pod: &Pod, settings: &Settings) -> Vec<String> {
    let mut names = pod.models();
    for (model, aliases) in &settings.aliases {
        if names.contains(model) {
            names.extend(aliases.iter().cloned());
        }
    }
    names
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort_unstable();
    names
}

fn by_slot(pods: &[Arc<Pod>]) -> Vec<Option<Arc<Pod>>> {
    let size = pods
        .iter()
        .map(|pod| usize::from(pod.slot().0) + 1)
        .max()
        .unwrap_or(0);
    let mut table = vec![None; size];
    for pod in pods {
        table[usize::from(pod.slot().0)] = Some(Arc::clone(pod));
    }
    table
}
