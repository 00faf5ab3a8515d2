//! The two halves that all families of changes have in common.

use crate::backend::contract::Prepared;
use crate::model::Result;

/// What a family's method gives: a plan, or also an error where it can have one.
pub(crate) trait Plan {
    fn plan(self) -> Result<Prepared>;
}

impl Plan for Prepared {
    fn plan(self) -> Result<Prepared> {
        Ok(self)
    }
}

impl Plan for Result<Prepared> {
    fn plan(self) -> Result<Prepared> {
        self
    }
}

/// A family whose requests become a plan by a method of `Demo`, for a guest that can be changed at all.
macro_rules! family {
    ($request:ty, $method:literal, $plan:ident) => {
        #[async_trait::async_trait]
        impl crate::backend::contract::Changes<$request> for crate::backend::demo::backend::Demo {
            async fn prepare(
                &self,
                cx: &crate::backend::contract::ReadCx,
                on: &crate::model::Instance,
                request: $request,
            ) -> crate::model::Result<crate::backend::contract::Prepared> {
                match self.look(cx, $method, on).await? {
                    Ok(guest) => {
                        crate::backend::demo::changes::Plan::plan(self.$plan(&guest, request))
                    }
                    Err(refused) => Ok(refused),
                }
            }

            async fn run(
                &self,
                cx: &crate::backend::contract::TaskCx,
                prepared: crate::backend::contract::Prepared,
            ) -> crate::model::Result<crate::model::Outcome> {
                crate::backend::demo::work::run(&self.world, cx, prepared).await
            }
        }
    };
}

pub(crate) use family;
