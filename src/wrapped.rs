//! What Pingora asks of a stream besides reading and writing, for types that wrap one in a field `stream`.

/// Passes on to the wrapped stream what wrapping does not change.
macro_rules! pass_on {
    ($wrapper:ty) => {
        impl std::fmt::Debug for $wrapper {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.stream.fmt(formatter)
            }
        }

        #[async_trait::async_trait]
        impl pingora_core::protocols::Shutdown for $wrapper {
            async fn shutdown(&mut self) {
                self.stream.shutdown().await;
            }
        }

        impl pingora_core::protocols::UniqueID for $wrapper {
            fn id(&self) -> pingora_core::protocols::UniqueIDType {
                self.stream.id()
            }
        }

        impl pingora_core::protocols::Ssl for $wrapper {
            fn get_ssl_digest(
                &self,
            ) -> Option<std::sync::Arc<pingora_core::protocols::tls::SslDigest>> {
                self.stream.get_ssl_digest()
            }

            fn selected_alpn_proto(&self) -> Option<pingora_core::protocols::ALPN> {
                self.stream.selected_alpn_proto()
            }
        }

        impl pingora_core::protocols::GetTimingDigest for $wrapper {
            fn get_timing_digest(&self) -> Vec<Option<pingora_core::protocols::TimingDigest>> {
                self.stream.get_timing_digest()
            }

            fn get_read_pending_time(&self) -> std::time::Duration {
                self.stream.get_read_pending_time()
            }

            fn get_write_pending_time(&self) -> std::time::Duration {
                self.stream.get_write_pending_time()
            }
        }

        impl pingora_core::protocols::GetSocketDigest for $wrapper {
            fn get_socket_digest(
                &self,
            ) -> Option<std::sync::Arc<pingora_core::protocols::SocketDigest>> {
                self.stream.get_socket_digest()
            }
        }
    };
}

pub(crate) use pass_on;
