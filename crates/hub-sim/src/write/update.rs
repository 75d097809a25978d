//! PUT, and what every change of an existing object has in common.

use std::sync::Arc;

use serde_json::Value;

use super::create::{is_reset, take_managed_fields};
use super::{Writer, Written, admit, text, validate, wrong_uid};
use crate::error::ApiError;
use crate::fields::{Managers, Operation};
use crate::json::At as _;
use crate::object::{Object, key};
use crate::schema::{Cause, CauseKind};

impl Writer<'_> {
    /// PUT.
    pub(crate) fn update(mut self, body: Value) -> Result<Written, ApiError> {
        let mut next = body;
        self.read(&mut next)?;
        self.check_namespace(&mut next)?;
        self.check_name(&next)?;
        let live = self.live();
        if live.is_none() && !self.kind.create_by_put {
            return Err(ApiError::not_found(&self.kind, self.name));
        }
        let uid = text(&next, "/metadata/uid");
        let have = live.as_ref().map_or("", |live| live.uid.as_ref());
        if !uid.is_empty() && uid != have {
            return Err(wrong_uid(
                &self.kind,
                &key(self.namespace, self.name),
                uid,
                have,
                self.options.dry_run,
            ));
        }
        let Some(live) = live else {
            let version = text(&next, "/metadata/resourceVersion");
            if !version.is_empty() && version.parse::<u64>().is_err() {
                return Err(unreadable_revision(version));
            }
            let managers = self.managers_of_new(&mut next);
            return self.insert(next, managers, false);
        };
        let before = live.value();
        let managers = self.managers_after_update(&live, &before, &mut next);
        self.change(&live, &before, next, managers)
    }

    /// The managers after anything but an apply. A client may send managers of its own, or ask to forget all.
    pub(super) fn managers_after_update(&self, live: &Object, before: &Value, next: &mut Value) -> Managers {
        let given = take_managed_fields(next);
        let known = match given {
            _ if !self.subresource.is_empty() => live.managers.clone(),
            // Of a custom kind, an empty list is no list.
            Some(entries) if is_reset(&entries) && !(self.kind.is_custom && entries.is_empty()) => {
                Managers::default()
            }
            Some(entries) => match Managers::from_json(&entries) {
                Ok(managers) if !managers.is_empty() => managers,
                _ => live.managers.clone(),
            },
            None => live.managers.clone(),
        };
        if known.is_empty() {
            // An object whose managers are not tracked stays so until the first apply.
            return known;
        }
        known.after_update(
            before,
            next,
            self.manager(Operation::Update),
            self.rules(&self.kind),
        )
    }

    /// Checks and stores the new state of an object, which was `before`. An object that is unchanged keeps its revision; one that was only held by
    /// finalizers is removed with the last of them.
    pub(super) fn change(
        self,
        live: &Arc<Object>,
        before: &Value,
        mut next: Value,
        managers: Managers,
    ) -> Result<Written, ApiError> {
        self.check_revision(&mut next, live)?;
        admit::keep_server_fields(&self.kind, before, &mut next, self.subresource);
        validate::changed_object(&self.kind, self.name, &next, before, self.subresource)?;
        if !self.is_status() {
            self.warnings
                .extend(validate::finalizer_warnings(&self.kind, &next, Some(before)));
        }
        let at = key(self.namespace, self.name);
        // The same untidy object is stored again when the second has changed, which is in its managers.
        let is_as_stored = match (live.unseen.is_untidy, self.unseen.is_untidy) {
            (false, false) => managers.same_fields(&live.managers),
            (true, true) => managers == live.managers,
            _ => false,
        };
        let is_unchanged = next == *before && is_as_stored && !live.unseen.lacks_status;
        let is_released = live.is_deleting
            && next
                .at("/metadata/finalizers")
                .and_then(Value::as_array)
                .is_none_or(Vec::is_empty)
            && !self.is_namespace_with_finalizers(&next);
        let object = if is_released {
            // The writer sees the object as it wrote it, the watches see the last one that was stored.
            let last = Arc::new(Object::new(Arc::clone(&at), next, managers, live.revision));
            if !self.options.dry_run {
                self.state
                    .remove(self.id, at, before.clone(), live.managers.clone());
            }
            last
        } else if is_unchanged {
            Arc::clone(live)
        } else if self.options.dry_run {
            Arc::new(Object::new(at, next, managers, live.revision))
        } else {
            self.put(at, next, managers)?
        };
        Ok(Written {
            created: false,
            object,
        })
    }

    /// A namespace is also held by the finalizer in its spec.
    fn is_namespace_with_finalizers(&self, next: &Value) -> bool {
        let list = next.at("/spec/finalizers").and_then(Value::as_array);
        self.kind.is_namespace() && list.is_some_and(|list| !list.is_empty())
    }

    /// A body with a resourceVersion is meant for this state only. Most kinds demand one.
    fn check_revision(&self, next: &mut Value, live: &Object) -> Result<(), ApiError> {
        let version = text(next, "/metadata/resourceVersion").to_owned();
        let refused = |shown: &str, why: &str| {
            let cause = Cause::new(
                "metadata.resourceVersion",
                CauseKind::Invalid,
                format!("Invalid value: {shown}: {why}"),
            );
            ApiError::invalid_resource(&self.kind, self.name, &cause)
        };
        if version.is_empty() || version == "0" {
            if !self.kind.unconditional_update {
                return Err(refused("0", "must be specified for an update"));
            }
            next["metadata"]["resourceVersion"] = live.revision.to_string().into();
            return Ok(());
        }
        match version.parse::<u64>() {
            Ok(wanted) if wanted == live.revision => Ok(()),
            Ok(_) => Err(ApiError::modified(&self.kind, self.name)),
            Err(_) => Err(unreadable_revision(&version)),
        }
    }
}

fn unreadable_revision(version: &str) -> ApiError {
    ApiError::internal(format!("strconv.ParseUint: parsing {version:?}: invalid syntax"))
}
