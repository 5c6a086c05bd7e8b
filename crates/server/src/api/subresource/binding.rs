//! Giving a pod its node, as a scheduler asks for it.

use setpoint_api::apply::{FieldSet, Path};
use setpoint_api::field_error::ErrorList;
use setpoint_api::kinds::core::pod::{bind, validate_binding};
use setpoint_api::metadata;
use setpoint_api::rfc3339::Seconds;
use setpoint_api::status::{Qualified, Status};
use setpoint_store::Expect;

use super::{PODS, done, expected, object};
use crate::api::Api;
use crate::api::write::writer;
use crate::exchange::{Answer, Request};
use crate::pipeline::{Step, unstorable};
use crate::query::Query;
use crate::route::Target;
use crate::{answers, served, stored};

impl Api {
    /// Binds the pod of this name; where the path does not say one, that of the binding.
    pub(in crate::api) async fn bind(
        &self,
        request: &Request,
        target: &Target,
        query: &Query,
        name: &str,
    ) -> Result<Answer, Status> {
        let (binding, warnings) = object(request, target, query, expected("v1", "Binding")?)?;
        let said = metadata::name(&binding);
        if !name.is_empty() && name != said {
            return Err(Status::bad_request("name in URL does not match name in Binding object"));
        }
        let mut errors = ErrorList::new();
        validate_binding(&binding, &mut errors);
        if !errors.is_empty() {
            return Err(Status::internal_error(errors));
        }
        let writer = writer(request, query, None)?;
        let pods = served::find("", "v1", "pods").ok_or_else(|| Status::not_found(PODS, said))?;
        let missing = || Status::not_found(PODS, said);
        self.perform(|world| {
            let key = pods.key(&target.namespace, said).map_err(|_| missing())?;
            let record = world.snapshot.get(&key).ok_or_else(missing)?;
            let mut pod = stored::object(record);
            for (field, title) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
                let (wanted, found) = (metadata::text(&binding, field), metadata::text(&pod, field));
                if !wanted.is_empty() && wanted != found {
                    let why = format!(
                        "Precondition failed: {title} in precondition: {wanted}, {title} in object meta: {found}"
                    );
                    return Err(Status::conflict(PODS, said, why));
                }
            }
            let about = Qualified { group: "", name: "pods/binding" };
            bind(&mut pod, &binding, &Seconds(world.now).to_string())
                .map_err(|error| Status::conflict(about, said, error))?;
            if writer.dry_run {
                return Ok(Step::Would(pod));
            }
            let draft = stored::draft(pods, pod).ok_or_else(unstorable)?;
            let expect = Expect::Revision(record.revision());
            let node = Path::of_fields(&["spec", "nodeName"]);
            let proposal = writer.proposal_of(world, &FieldSet::from_paths([&node]));
            Ok(Step::Commit(Box::new(proposal.put(key, expect, draft))))
        })
        .await?;
        let mut answer = done();
        answers::warn(&mut answer, &warnings);
        Ok(answer)
    }
}
