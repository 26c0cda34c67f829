//! `hive dev`: a local world of several nodes, each a process of this same program.
//!
//!   lay out (labels, ports, node.toml) ─▶ certificates ─▶ spawn ─▶ wait for /ready ─▶ keyspace `default`
//!     ─▶ S3 account and key ─▶ ready file ─▶ watch: a node that dies is reported and, after 5 s, started again ─▶ stop all
//!
//! By design: no node outlives this process, even if it is killed; data is kept unless `--fresh`; nothing is written or deleted
//! while another process has the data.
//! Not here: anything a node of a real world has not (certificates, configuration and doors are the same).

mod layout;
mod process;
mod s3;

use crate::arguments::DevArguments;
use crate::failure::Failure;
use hive_client::{Client, ErrorCode, Options, Tls, Token};
use layout::Plan;
use process::Node;
use s3::Keys;
use serde_json::{json, Value};
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::signal::unix::{signal, Signal, SignalKind};

/// The namespace of etcd clients that pick none.
const NAMESPACE: &str = "etcd";
/// The database of Redis clients that pick none.
const DATABASE: &str = "redis";
/// How long the world may take until every node is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(90);
/// How often a node's readiness and life are looked at.
const WATCH_PAUSE: Duration = Duration::from_millis(100);
/// How long a dead node stays dead.
const RESTART_AFTER: Duration = Duration::from_secs(5);
/// How long making a keyspace may take.
const KEYSPACE_TIMEOUT: Duration = Duration::from_secs(30);

/// Runs a world until a signal stops it.
pub fn run(arguments: DevArguments) -> Result<(), Failure> {
    let mut plan = Plan::new(&arguments)?;
    if arguments.fresh {
        layout::check_ours(&plan.data)?;
    }
    // Before anything is written or deleted: another `hive dev` may be at work on it.
    let _lock = layout::lock(&plan.data)?;
    if arguments.fresh {
        layout::clear(&plan.data)?;
    }
    if let Some(file) = &arguments.ready_file {
        // A file of an earlier world must not be taken for this one's.
        let _ = std::fs::remove_file(file);
    }
    plan.check_ports()?;
    plan.write()?;
    plan.keys = Keys::load_or_draw(&plan.data)?;
    crate::on_runtime(world(&arguments, &plan))
}

/// Signals that end the world.
struct Stop {
    interrupt: Signal,
    terminate: Signal,
}

impl Stop {
    fn new() -> Result<Stop, Failure> {
        let failed = |error: std::io::Error| Failure::refused(format!("cannot listen for signals: {error}"));
        Ok(Stop {
            interrupt: signal(SignalKind::interrupt()).map_err(failed)?,
            terminate: signal(SignalKind::terminate()).map_err(failed)?,
        })
    }

    async fn wait(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

async fn world(arguments: &DevArguments, plan: &Plan) -> Result<(), Failure> {
    let mut stop = Stop::new()?;
    let mut nodes: Vec<Node> = Vec::new();
    let result = async {
        for place in &plan.places {
            nodes.push(Node::spawn(place)?);
        }
        tokio::select! {
            () = stop.wait() => return Ok(()),
            started = start(arguments, plan, &mut nodes) => started?,
        }
        watch(arguments, plan, &mut nodes, &mut stop).await
    }
    .await;
    if !arguments.json {
        println!("stopping");
    }
    process::stop_all(&mut nodes).await;
    if let Some(file) = &arguments.ready_file {
        let _ = std::fs::remove_file(file);
    }
    result
}

/// Waits until every node serves, makes the keyspace, says so.
async fn start(arguments: &DevArguments, plan: &Plan, nodes: &mut [Node]) -> Result<(), Failure> {
    wait_ready(plan, nodes).await?;
    let endpoints: Vec<String> = plan.places.iter().map(|place| plan.url(&place.http())).collect();
    let token = if plan.secure { Some(root_token(plan).await?) } else { None };
    let options = Options { token: token.as_deref().map(Token::new), ..Options::default() };
    let client = client(plan, &endpoints)?.with_options(options);
    create_keyspace(&client, plan, "default").await?;
    create_keyspace(&client, plan, NAMESPACE).await?;
    create_keyspace(&client, plan, DATABASE).await?;
    plan.keys.make(&client).await?;
    publish(arguments, plan, nodes)?;
    if arguments.json {
        println!("{}", ready_json(arguments, plan, nodes));
    } else {
        print_endpoints(plan, nodes);
    }
    Ok(())
}

async fn wait_ready(plan: &Plan, nodes: &mut [Node]) -> Result<(), Failure> {
    let start = Instant::now();
    for (place, at) in plan.places.iter().zip(0..) {
        let client = client(plan, &[plan.url(&place.http())])?;
        loop {
            if matches!(client.get_path(0, "/ready").await, Ok((200, _))) {
                break;
            }
            for node in nodes.iter_mut() {
                if let Some(how) = node.ended() {
                    let message = format!(
                        "node {} ended while starting ({how}); the end of {}:\n{}",
                        node.id,
                        node.log.display(),
                        node.log_tail()
                    );
                    return Err(Failure::refused(message));
                }
            }
            if start.elapsed() > READY_TIMEOUT {
                let log = nodes.get(at).map(Node::log_tail).unwrap_or_default();
                let seconds = READY_TIMEOUT.as_secs();
                let message = format!(
                    "node {} is not ready after {seconds} s; look at {}/ready; the end of its log:\n{log}",
                    place.id,
                    plan.url(&place.http())
                );
                return Err(Failure::unavailable(message));
            }
            tokio::time::sleep(WATCH_PAUSE).await;
        }
    }
    Ok(())
}

/// A client of nodes of this world.
fn client(plan: &Plan, endpoints: &[String]) -> Result<Client, Failure> {
    Ok(match plan.secure {
        true => Client::with_tls(endpoints, &Tls::from_files(&plan.clients_authority(), None)?)?,
        false => Client::new(endpoints)?,
    })
}

/// The world's root token: whichever node made the world's users has it in its data directory.
async fn root_token(plan: &Plan) -> Result<String, Failure> {
    let start = Instant::now();
    loop {
        if let Some(token) = plan.root_token() {
            return Ok(token);
        }
        if start.elapsed() > READY_TIMEOUT {
            let message = format!(
                "no node has the root token ({} in a node's data directory): if it was moved, `hive token create root` through a node's Unix socket makes another one, or use --fresh",
                edge_node::access::root::FILE
            );
            return Err(Failure::unavailable(message));
        }
        tokio::time::sleep(WATCH_PAUSE).await;
    }
}

/// The keyspace of the plain routes, the namespace of the etcd door, or the database of the Redis door.
async fn create_keyspace(client: &Client, plan: &Plan, name: &str) -> Result<(), Failure> {
    let size = plan.places.len().min(5);
    let mut body = json!({
        "action": "CreateKeyspace", "keyspace": name,
        "rule": format!("size={size} location=world failure_domain=chassis"),
        "deadline_ms": KEYSPACE_TIMEOUT.as_millis() as u64,
    });
    match name {
        NAMESPACE => body["kind"] = "versioned".into(),
        DATABASE => body["kind"] = "redis".into(),
        _ => body["partitions"] = 16.into(),
    }
    match client.action(body).await {
        Ok(_) => Ok(()),
        Err(error) if error.code() == Some(ErrorCode::KeyspaceExists) => Ok(()),
        Err(error) => {
            let failure = Failure::from(error);
            Err(Failure { message: format!("the keyspace '{name}' could not be made: {}", failure.message), ..failure })
        }
    }
}

/// Watches the nodes until a signal comes.
async fn watch(arguments: &DevArguments, plan: &Plan, nodes: &mut [Node], stop: &mut Stop) -> Result<(), Failure> {
    loop {
        tokio::select! {
            () = stop.wait() => return Ok(()),
            () = tokio::time::sleep(WATCH_PAUSE) => {}
        }
        for (node, place) in nodes.iter_mut().zip(&plan.places) {
            if let Some(how) = node.ended() {
                let next = if arguments.no_restart { "stays down (--no-restart)" } else { "is started again in 5 s" };
                eprintln!("node {} ended ({how}) and {next}; its log is {}", node.id, node.log.display());
            }
            if arguments.no_restart || !node.dead_for(RESTART_AFTER) {
                continue;
            }
            // A node that cannot even be spawned now (no memory, no processes) is tried again in 5 s.
            match node.respawn(place) {
                Ok(()) => eprintln!("node {} is started again, process {}", node.id, node.pid()),
                Err(failure) => eprintln!("node {} could not be started: {}", node.id, failure.message),
            }
        }
        if nodes.iter_mut().any(Node::take_changed) {
            publish(arguments, plan, nodes)?;
        }
    }
}

/// The ready file's JSON: only doors that exist have an address.
fn ready_json(arguments: &DevArguments, plan: &Plan, nodes: &[Node]) -> Value {
    let node = |(place, node): (&layout::Place, &Node)| {
        json!({
            "id": place.id, "pid": node.pid(), "region": place.region, "az": place.az, "rack": place.rack,
            "chassis": place.chassis, "http": plan.url(&place.http()), "redis": plan.redis_url(place), "etcd": plan.url(&place.etcd()),
            "s3": plan.url(&place.s3()), "peer": place.peer(), "data": place.directory.join("data"), "log": node.log,
        })
    };
    let mut ready = json!({
        "base_port": arguments.base_port, "data": plan.data, "world": plan.world, "pid": std::process::id(),
        "nodes": plan.places.iter().zip(nodes).map(node).collect::<Vec<_>>(),
        "s3": {
            "access_key": plan.keys.access_key, "secret_key": plan.keys.secret_key, "region": layout::REGION,
            "account": s3::ACCOUNT,
        },
    });
    if plan.secure {
        ready["token"] = plan.root_token().into();
        ready["ca"] = plan.clients_authority().display().to_string().into();
    }
    ready
}

/// Writes the ready file whole or not at all.
fn publish(arguments: &DevArguments, plan: &Plan, nodes: &[Node]) -> Result<(), Failure> {
    let Some(file) = &arguments.ready_file else { return Ok(()) };
    let text = format!("{}\n", ready_json(arguments, plan, nodes));
    // It has the S3 secret in it.
    write_whole(file, text.as_bytes(), 0o600)
}

/// Writes a file beside its place and moves it there.
pub(crate) fn write_whole(file: &Path, bytes: &[u8], mode: u32) -> Result<(), Failure> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut beside = file.as_os_str().to_owned();
    beside.push(".new");
    let written = (|| {
        // Made here: one that somebody left or linked there would keep its own mode.
        match std::fs::remove_file(&beside) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut out = std::fs::OpenOptions::new().create_new(true).write(true).mode(mode).open(&beside)?;
        out.write_all(bytes)?;
        std::fs::rename(&beside, file)
    })();
    written.map_err(|error| Failure::refused(format!("{}: {error}", file.display())))
}

fn print_endpoints(plan: &Plan, nodes: &[Node]) {
    println!("world {} is ready; data in {}\n", plan.world, plan.data.display());
    let mut out =
        crate::output::table(["NODE", "PROCESS", "PLACE", "HTTP", "S3", "ETCD", "REDIS", "PEERS (mutual TLS)"]);
    for (place, node) in plan.places.iter().zip(nodes) {
        let where_is = format!("{} / {} / {}", place.region, place.az, place.chassis);
        out.add_row([
            place.id.to_string(),
            node.pid().to_string(),
            where_is,
            plan.url(&place.http()),
            plan.url(&place.s3()),
            plan.url(&place.etcd()),
            plan.redis_url(place),
            place.peer(),
        ]);
    }
    println!("{out}\n");
    let first = plan.places[0].http();
    let program = std::env::args().next().unwrap_or_else(|| "hive".into());
    let endpoint = if plan.base_port == 7000 { String::new() } else { format!(" --endpoint http://{first}") };
    match plan.secure {
        true => print_secure(plan, &program),
        false => print_open(plan, &program, &endpoint),
    }
    println!("\nctrl-c stops every node; kill -9 one of them to see the others continue");
}

/// What to try in a world that asks nobody who they are.
fn print_open(plan: &Plan, program: &str, endpoint: &str) {
    let (first, last) = (plan.places[0].http(), plan.places[plan.places.len() - 1].http());
    println!(
        "the doors are open to every program of this machine, and to none beyond it; --secure asks who they are\n"
    );
    println!("first things to try, any node will do:");
    println!("  curl -s http://{first}/ -d '{{\"action\":\"KvPut\",\"key\":\"hello\",\"value\":\"world\"}}'");
    println!("  curl -s http://{last}/ -d '{{\"action\":\"KvGet\",\"key\":\"hello\"}}'");
    println!("  curl -s 'http://{last}/get?key=hello'");
    println!("  curl -s http://{first}/metrics | head");
    println!("  {program} ctl status{endpoint}");
    println!("  {program} kv scan{endpoint}");
    println!("Redis, any node (database {DATABASE}):");
    println!("  redis-cli -p {} set hello world", plan.places[0].redis_port());
    println!("  redis-cli -p {} get hello", plan.places[plan.places.len() - 1].redis_port());
    println!("etcd, any node (namespace {NAMESPACE}):");
    println!("  etcdctl --endpoints {} put hello world", plan.places[0].etcd());
    println!("  etcdctl --endpoints {} get hello", plan.places[plan.places.len() - 1].etcd());
    println!("S3, any node's gateway (account {}):", s3::ACCOUNT);
    println!(
        "  export AWS_ACCESS_KEY_ID={} AWS_SECRET_ACCESS_KEY={} AWS_DEFAULT_REGION={}",
        plan.keys.access_key,
        plan.keys.secret_key,
        layout::REGION
    );
    println!("  aws --endpoint-url http://{} s3 mb s3://first", plan.places[0].s3());
    println!("  aws --endpoint-url http://{} s3 ls", plan.places[plan.places.len() - 1].s3());
}

/// What to try in a world as in production.
fn print_secure(plan: &Plan, program: &str) {
    let (first, ca) = (plan.url(&plan.places[0].http()), plan.clients_authority().display().to_string());
    println!("every door speaks TLS and asks for a credential; first things to try:");
    println!("  export HIVE_CA={ca} HIVE_ENDPOINT={first}");
    println!("  export HIVE_TOKEN_FILE={}", plan.root_token_file().unwrap_or_default().display());
    println!("  {program} user whoami");
    println!("  {program} user create ann --role \"writer on kv/default/ann/\"");
    println!("  {program} token create ann --expires 30d");
    println!("  curl -s --cacert {ca} -H \"Authorization: Bearer $(cat $HIVE_TOKEN_FILE)\" {first}/ -d '{{\"action\":\"KvPut\",\"key\":\"hello\",\"value\":\"world\"}}'");
    println!("Redis, any node (database {DATABASE}):");
    println!(
        "  redis-cli -p {} --tls --cacert {ca} -a \"$(cat $HIVE_TOKEN_FILE)\" --no-auth-warning set hello world",
        plan.places[0].redis_port()
    );
    println!("etcd, any node (namespace {NAMESPACE}):");
    println!(
        "  etcdctl --endpoints {} --cacert {ca} --user \"root:$(cat $HIVE_TOKEN_FILE)\" put hello world",
        plan.url(&plan.places[0].etcd())
    );
    println!("S3, any node's gateway (account {}):", s3::ACCOUNT);
    println!(
        "  export AWS_ACCESS_KEY_ID={} AWS_SECRET_ACCESS_KEY={} AWS_DEFAULT_REGION={} AWS_CA_BUNDLE={ca}",
        plan.keys.access_key,
        plan.keys.secret_key,
        layout::REGION
    );
    println!("  aws --endpoint-url {} s3 mb s3://first", plan.url(&plan.places[0].s3()));
}
