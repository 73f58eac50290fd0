//! nginx as an operator sets it up for engines: request bodies buffered in memory, answers passed on at once.

use std::process::Command;

use anyhow::Result;

use super::{Balancer, Place, Program};

pub(super) const NGINX: Balancer = Balancer {
    name: "nginx",
    about: "one worker, least connections, bodies buffered whole in memory, upstream keepalive",
    program: Program::External {
        file: "nginx",
        version: "-v",
        says: "",
        get: "apt-get install nginx",
    },
    command,
};

fn command(place: &Place<'_>) -> Result<Command> {
    let engines = place.each_engine(|engine| format!("server {engine};\n"));
    let folder = place.folder.display();
    let config = format!(
        "worker_processes 1;\ndaemon off;\npid {folder}/nginx.pid;\nerror_log stderr warn;\n\
         events {{ worker_connections 8192; }}\n\
         http {{\n\
         access_log off;\n\
         client_max_body_size 64m;\nclient_body_buffer_size 8m;\nkeepalive_requests 1000000000;\n\
         client_body_temp_path {folder}/nginx-body;\nproxy_temp_path {folder}/nginx-proxy;\n\
         fastcgi_temp_path {folder}/nginx-fastcgi;\nuwsgi_temp_path {folder}/nginx-uwsgi;\n\
         scgi_temp_path {folder}/nginx-scgi;\n\
         upstream engines {{\nleast_conn;\n{engines}keepalive 512;\nkeepalive_requests 1000000000;\n}}\n\
         server {{\nlisten {};\nlocation / {{\nproxy_pass http://engines;\nproxy_http_version 1.1;\n\
         proxy_set_header Connection \"\";\nproxy_buffering off;\nproxy_read_timeout 600s;\n}}\n}}\n}}\n",
        place.listen
    );
    let file = place.write("nginx.conf", &config)?;
    let mut command = Command::new(place.program);
    command.arg("-c").arg(file).arg("-p").arg(place.folder);
    Ok(command)
}
