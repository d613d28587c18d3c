//! Audit events.

use domain::audit::AuditEntityType;
use domain::audit::listing;
use domain::identity::access::{GroupAccess, InstanceAccess, ProjectAccess};
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};

use crate::api::routes::AuditEventsApi;
use crate::app::App;
use crate::views::activity::audit_events::{audit_event, entity_type};
use contract::timestamp::Timestamp;
use contract::{
    AuditEvent, AuditEventFilter, GetAuditEventRequest, GetGroupAuditEventRequest,
    GetProjectAuditEventRequest, ListAuditEventsRequest, ListGroupAuditEventsRequest,
    ListProjectAuditEventsRequest,
};

fn filter(filter: AuditEventFilter) -> listing::AuditEventFilter {
    listing::AuditEventFilter {
        created_after: filter.created_after.map(Timestamp::to_utc),
        created_before: filter.created_before.map(Timestamp::to_utc),
        id_before: filter.id_before,
    }
}

impl AuditEventsApi for App {
    async fn list_audit_events(
        &self,
        _: InstanceAccess,
        request: ListAuditEventsRequest,
        page: PageRequest,
    ) -> Result<Page<AuditEvent>> {
        let filter = filter(request.audit_event_filter);
        let kind = request.entity_type.map(entity_type);
        let page = listing::list_all(&self.backend, kind, request.entity_id, filter, &page).await?;
        Ok(page.map(audit_event))
    }

    async fn get_audit_event(&self, _: InstanceAccess, request: GetAuditEventRequest) -> Result<AuditEvent> {
        let found = listing::get(&self.backend, None, request.id).await?;
        Ok(audit_event(found))
    }

    async fn list_group_audit_events(
        &self,
        access: GroupAccess,
        request: ListGroupAuditEventsRequest,
        page: PageRequest,
    ) -> Result<Page<AuditEvent>> {
        let filter = filter(request.audit_event_filter);
        let entity = (AuditEntityType::Group, access.group.id);
        let page = listing::list_of(&self.backend, entity, filter, &page).await?;
        Ok(page.map(audit_event))
    }

    async fn get_group_audit_event(
        &self,
        access: GroupAccess,
        request: GetGroupAuditEventRequest,
    ) -> Result<AuditEvent> {
        let entity = (AuditEntityType::Group, access.group.id);
        let found = listing::get(&self.backend, Some(entity), request.audit_event_id).await?;
        Ok(audit_event(found))
    }

    async fn list_project_audit_events(
        &self,
        access: ProjectAccess,
        request: ListProjectAuditEventsRequest,
        page: PageRequest,
    ) -> Result<Page<AuditEvent>> {
        let filter = filter(request.audit_event_filter);
        let entity = (AuditEntityType::Project, access.project.id);
        let page = listing::list_of(&self.backend, entity, filter, &page).await?;
        Ok(page.map(audit_event))
    }

    async fn get_project_audit_event(
        &self,
        access: ProjectAccess,
        request: GetProjectAuditEventRequest,
    ) -> Result<AuditEvent> {
        let entity = (AuditEntityType::Project, access.project.id);
        let found = listing::get(&self.backend, Some(entity), request.audit_event_id).await?;
        Ok(audit_event(found))
    }
}
