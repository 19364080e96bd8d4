/** The right repetition after a failure: the same call at once, the same call later, or never. */
export type Retry = "now" | "later" | "never"

interface ErrorEntry {
  readonly status: number
  readonly retry: Retry
  /** The step that the reader can take, in one sentence. */
  readonly hint: string
}

/** Every error that Berth raises. A code that is not here does not compile. */
export const ERRORS = {
  "input.invalid": {
    status: 400,
    retry: "never",
    hint: "Correct the value at the path that the details name.",
  },
  "input.usage": {
    status: 400,
    retry: "never",
    hint: "`berth --help` lists the commands, and `berth COMMAND --help` what each of them takes.",
  },
  "input.too_large": {
    status: 413,
    retry: "never",
    hint: "Send less in one request; the details name the limit.",
  },
  "config.invalid": {
    status: 400,
    retry: "never",
    hint: "Correct what the details name; `berth config --help` lists every key of the configuration.",
  },
  "auth.required": {
    status: 401,
    retry: "never",
    hint: "Send the token from the data directory as `Authorization: Bearer …`.",
  },
  "auth.host_refused": {
    status: 403,
    retry: "never",
    hint: "Call the server by the name localhost, 127.0.0.1 or [::1]: it refuses others, so that no web page can reach it through a name of its own.",
  },
  "route.unknown": {
    status: 404,
    retry: "never",
    hint: "Check the method and the path, and that client and server are of the same version.",
  },
  not_found: { status: 404, retry: "never", hint: "Check the name; `berth ps` lists what exists." },
  "sandbox.ended": {
    status: 410,
    retry: "never",
    hint: "The sandbox has ended, and no other takes its place: `berth ps` lists the existing sandboxes, and `berth why` says why this one ended.",
  },
  "sandbox.in_use": {
    status: 409,
    retry: "later",
    hint: "The details name the users of the sandbox. Wait until they are done, or use --force, which cuts them off.",
  },
  "sandbox.halted": {
    status: 507,
    retry: "later",
    hint: "The sandbox goes on by itself when the disk that holds the data directory has room, or when its workspace has a larger limits.diskBytes. `berth make-room` lets you delete files in it; `berth rm --force` removes all its files.",
  },
  "sandbox.not_halted": {
    status: 409,
    retry: "never",
    hint: "Only a halted sandbox is woken by a person: `berth ps` shows which sandboxes are halted.",
  },
  "sandbox.not_quarantined": {
    status: 409,
    retry: "never",
    hint: "`berth recover` takes quarantined sandboxes only: `berth ps` shows which are, and `berth why` what became of the others.",
  },
  "workspace.draining": {
    status: 409,
    retry: "later",
    hint: "The workspace has changed while its sandbox is in use. The details name the users; the new sandbox comes when they are done. To work beside them, fork the workspace: `berth fork`.",
  },
  "workspace.other_repo": {
    status: 409,
    retry: "never",
    hint: "Give the workspace of this repo another name with --name, or replace the other workspace with --replace, which removes its files and closes its sessions.",
  },
  "workspace.exists": {
    status: 409,
    retry: "never",
    hint: "Choose another name: `berth ps` lists the existing workspaces.",
  },
  "workspace.files_left": {
    status: 409,
    retry: "never",
    hint: "The database that knew them was lost or put back from a copy. `berth recover` gives them back where `berth ps` shows their sandbox as quarantined; `berth layers export` saves them, and `berth layers import` takes them under another name. Choose another name with --name, or remove them with `berth up --replace`.",
  },
  "workspace.failing": {
    status: 409,
    retry: "never",
    hint: "The last boots of the workspace failed, for the reason in the message. Change the workspace, or try again with `berth up --retry`.",
  },
  "host.exhausted": {
    status: 503,
    retry: "later",
    hint: "Free what the message names, or stop sandboxes that are not needed: `berth ps`, `berth stop`.",
  },
  internal: {
    status: 500,
    retry: "later",
    hint: "This is a defect in Berth: please report it with the server's log.",
  },
  "deadline.exceeded": {
    status: 504,
    retry: "later",
    hint: "The operation took longer than its deadline; the host may be overloaded.",
  },
  cancelled: { status: 499, retry: "now", hint: "The operation was cancelled by its caller." },
  "client.runtime_too_old": {
    status: 501,
    retry: "never",
    hint: "Use Node 22 or newer, or pass the WebSocket of the npm package ws: createClient({ WebSocket }).",
  },
  "server.not_running": {
    status: 503,
    retry: "later",
    hint: "Start a server with `berth serve`, or name the data directory of one that runs with --data-dir or BERTH_DATA_DIR; one of root's is on /var/lib/berth, for the members of its group.",
  },
  "server.starting": {
    status: 503,
    retry: "later",
    hint: "Try again in a moment; if it goes on, look at what the server writes to its standard error.",
  },
  "server.unreachable": {
    status: 503,
    retry: "later",
    hint: "Check that a server runs at this address.",
  },
  "server.stopping": {
    status: 503,
    retry: "later",
    hint: "The server is stopping: try again after it has started again.",
  },
  "server.reply_invalid": {
    status: 502,
    retry: "never",
    hint: "Another program, or a server of another version, answers there: check the address.",
  },
  "server.port_in_use": {
    status: 409,
    retry: "never",
    hint: "Stop the program that listens on that port, or choose another port with --port (0 lets the system choose).",
  },
  "server.listen_failed": {
    status: 500,
    retry: "never",
    hint: "Choose another address with --host, or a port above 1023 with --port.",
  },
  "host.path_unsafe": {
    status: 500,
    retry: "never",
    hint: "Another user of this machine could exchange the files there. The details name the wrong part of the path, and the remedy.",
  },
  "server.token_unusable": {
    status: 500,
    retry: "never",
    hint: "Correct the file that the details name, or remove it: the next start makes a new token.",
  },
  "store.locked": {
    status: 409,
    retry: "never",
    hint: "Another server uses this data directory: stop it, or give this one a directory of its own with --data-dir.",
  },
  "store.disk_full": {
    status: 507,
    retry: "later",
    hint: "Free space on the disk that holds the data directory.",
  },
  "store.read_only": {
    status: 500,
    retry: "never",
    hint: "Make the data directory writable for the user that runs the server.",
  },
  "store.damaged": {
    status: 500,
    retry: "never",
    hint: "Nothing was changed. Move the file away together with those of the same name and -wal, -shm or -journal, then put a backup in its place or start with an empty database; `sqlite3 FILE .recover` saves what is readable.",
  },
  "store.too_new": {
    status: 500,
    retry: "never",
    hint: "This data directory was written by a newer Berth: run that version, or a later one.",
  },
  "store.migration_failed": {
    status: 500,
    retry: "never",
    hint: "The database is as it was before the migration: go back to the Berth that ran last, and report this with the server's log.",
  },
  "store.busy": {
    status: 503,
    retry: "later",
    hint: "Another program has the database open: end that backup or database shell.",
  },
  "store.io": {
    status: 500,
    retry: "later",
    hint: "The file system refused: look at the host's kernel log and at the disk's health.",
  },
  "store.no_directory": {
    status: 500,
    retry: "never",
    hint: "Name a directory that exists or can be made, with --data-dir.",
  },
  "store.closed": { status: 503, retry: "later", hint: "The server is stopping: ask again." },
  "backend.engine_failed": {
    status: 502,
    retry: "later",
    hint: "The engine's own words are in the details; `berth doctor` tells what this host lacks.",
  },
  "backend.unavailable": {
    status: 503,
    retry: "later",
    hint: "Run `berth doctor`: it names what is missing on this host and the command that installs it.",
  },
  "backend.unsupported": {
    status: 501,
    retry: "never",
    hint: "This backend cannot do that here; the details name the backends that can.",
  },
  "backend.engine_exposed": {
    status: 503,
    retry: "never",
    hint: "Whoever reaches an engine's port is root on its machine, and sandboxes would: let it listen on its loopback alone and come through a tunnel, or drop what its bridges send to that port by a rule of its firewall.",
  },
  "backend.conflict": {
    status: 409,
    retry: "never",
    hint: "A sandbox of this id exists with another configuration: remove it first.",
  },
  "backend.name_taken": {
    status: 409,
    retry: "never",
    hint: "Someone else's container in the engine has the name that this sandbox needs; it was left alone. Remove or rename it: the details say which one.",
  },
  "backend.volume_wrong": {
    status: 409,
    retry: "never",
    hint: "A volume in the engine has the name that is needed and is another one; it was left alone. Remove it from the engine: the details name it and say what is wrong with it.",
  },
  "backend.network_wrong": {
    status: 409,
    retry: "never",
    hint: "A network in the engine has the name that is needed and is another one; no sandbox is started on it. Remove it from the engine, and the right one is made: the details say what is wrong with it.",
  },
  "backend.forbidden": {
    status: 503,
    retry: "never",
    hint: "Let the user who runs the server use the engine's socket (mostly by its group, from the next login on), or run the server as root.",
  },
  "backend.wrong_state": {
    status: 409,
    retry: "never",
    hint: "The details say what state the sandbox is in and which it must be in.",
  },
  "backend.unknown_sandbox": {
    status: 404,
    retry: "never",
    hint: "There is no such sandbox any more: `berth ps` lists the existing sandboxes.",
  },
  "backend.processes_left": {
    status: 500,
    retry: "later",
    hint: "Processes of a sandbox that its engine forgot do not end, mostly because they wait for a disk. The details name them: see what holds them, or restart the machine. The removal is tried again.",
  },
  "backend.mount_left": {
    status: 500,
    retry: "later",
    hint: "The engine left a mount of a sandbox's files that something uses: the details name it. End what uses it (`fuser -vm PATH` lists that), or restart the engine. The removal is tried again.",
  },
  "backend.state_damaged": {
    status: 500,
    retry: "never",
    hint: "The sandbox's state file was left as it is. Remove the sandbox to start anew.",
  },
  "backend.network_conflict": {
    status: 409,
    retry: "later",
    hint: "The details name the route or link that is in the way: give the sandboxes another address pool, or remove it.",
  },
  "backend.network_exhausted": {
    status: 503,
    retry: "later",
    hint: "Remove sandboxes, or give them a larger address pool.",
  },
  "backend.disk_full": {
    status: 507,
    retry: "later",
    hint: "Free space on the disk that holds the data directory or, where the details name another path, that one.",
  },
  "backend.rootfs_invalid": {
    status: 400,
    retry: "never",
    hint: "Name a directory with a system in it (usr/bin or bin) by its real path; `mmdebstrap bookworm DIRECTORY` makes one.",
  },
  "backend.image_unavailable": {
    status: 404,
    retry: "later",
    hint: "Check the image's name, load or pull it into the engine by hand, or name another one: with `berth up --image`, or for all with `berth serve --image`.",
  },
  "backend.image_unsuitable": {
    status: 400,
    retry: "never",
    hint: "Agents run on a Node that needs glibc and libstdc++, which Alpine and images without a distribution lack: use an image of Debian, Ubuntu, Fedora or the like.",
  },
  "backend.mount_invalid": {
    status: 400,
    retry: "never",
    hint: "Name a directory of the host that exists, by its real path: no part of it may be a link.",
  },
  "backend.cgroups_unavailable": {
    status: 500,
    retry: "never",
    hint: "Run the server as root where /sys/fs/cgroup is writable; `berth doctor` says what works on this host.",
  },
  "backend.cgroups_exhausted": {
    status: 503,
    retry: "later",
    hint: "The host takes no more cgroups: remove sandboxes, or raise the bound of the cgroup that the details name.",
  },
  "backend.limit_refused": {
    status: 409,
    retry: "never",
    hint: "The kernel refused this limit: choose one that is not below what the sandbox uses, and not above what the server itself may use.",
  },
  "layers.unknown": {
    status: 404,
    retry: "never",
    hint: "There is no such stack, top, layer or pin any more: `berth layers ls` lists what exists.",
  },
  "layers.exists": {
    status: 409,
    retry: "never",
    hint: "The details name the existing one: remove it first, or choose another name.",
  },
  "layers.top_in_use": {
    status: 409,
    retry: "later",
    hint: "A sandbox has these files mounted: stop it first (`berth stop`), or copy them while it runs (`berth fork`). Where the message names a process instead, that has them mounted: end it.",
  },
  "layers.wrong_flavour": {
    status: 409,
    retry: "never",
    hint: "These layers mark deleted files in another way, and mounting them would bring those back: use the backend that made them.",
  },
  "layers.wrong_ids": {
    status: 409,
    retry: "never",
    hint: "These layers belong to another range of user ids: give the server the data directory that it had with them, or the range.",
  },
  "layers.too_deep": {
    status: 409,
    retry: "never",
    hint: "Stop the sandbox of this workspace (`berth stop`) and start it again (`berth up`), which flattens its files first; `berth layers ls` says how deep they are.",
  },
  "layers.path_too_long": {
    status: 409,
    retry: "never",
    hint: "A path of these files is longer than 4,096 bytes, and nothing can copy it: remove the folder that it begins with, or stop the sandbox first, since a fork of a stopped one copies nothing.",
  },
  "layers.changed_meanwhile": {
    status: 409,
    retry: "now",
    hint: "The files were frozen in the meantime, and nothing was changed: run the command again.",
  },
  "layers.disk_full": {
    status: 507,
    retry: "later",
    hint: "Free space on the disk that holds the data directory; nothing was changed.",
  },
  "layers.damaged": {
    status: 500,
    retry: "never",
    hint: "Run `berth layers verify`: it repairs what a crash left and names what it cannot repair.",
  },
  "layers.archive_refused": {
    status: 400,
    retry: "never",
    hint: "Nothing was made of it. Import a file that `berth layers export` wrote; one that is cut short or damaged is to be exported or copied again. The details say what is wrong, and with which entry.",
  },
  "layers.archive_too_large": {
    status: 413,
    retry: "never",
    hint: "The archive holds more than the limit that the details name.",
  },
  "layers.thaw_failed": {
    status: 500,
    retry: "later",
    hint: "The sandbox may still be frozen: `berth stop` ends it, and `berth reconcile` looks at it again.",
  },
  "layers.io": {
    status: 500,
    retry: "later",
    hint: "A program or the file system refused; its own words are in the details.",
  },
  "bridge.unreachable": {
    status: 503,
    retry: "later",
    hint: "Nothing listens on the sandbox's socket: it may still be starting, or have ended; `berth ps` tells.",
  },
  "bridge.not_a_socket": {
    status: 502,
    retry: "never",
    hint: "Something inside the sandbox put another kind of file in the place of its socket: remove the sandbox.",
  },
  "bridge.unauthorized": {
    status: 502,
    retry: "never",
    hint: "The program that listens on the sandbox's socket refuses its token: remove the sandbox.",
  },
  "bridge.timed_out": {
    status: 504,
    retry: "later",
    hint: "The sandbox did not answer in time: it may be paused, frozen or overloaded.",
  },
  "bridge.dropped": {
    status: 503,
    retry: "now",
    hint: "The connection to the sandbox ended; it is made again by itself. Prompts go on and keep their events; the output of a command that was running may be lost.",
  },
  "bridge.down": {
    status: 503,
    retry: "later",
    hint: "The sandbox is not connected right now; the details say why. The same prompt may be sent again.",
  },
  "bridge.congested": {
    status: 503,
    retry: "later",
    hint: "The sandbox does not read what is sent to it: it may be paused, frozen or overloaded.",
  },
  "bridge.refused": {
    status: 502,
    retry: "later",
    hint: "The sandbox refused; its own words are in the details.",
  },
  "bridge.replaced": {
    status: 409,
    retry: "later",
    hint: "Another connection to this sandbox was made since: check that only one server uses this data directory.",
  },
  "bridge.generation_mismatch": {
    status: 409,
    retry: "never",
    hint: "The sandbox was made by another version of Berth: stop it, and a new one takes its place with the same files.",
  },
  "bridge.history_lost": {
    status: 409,
    retry: "never",
    hint: "The sandbox does not hold the events that come next: its journal, or the server's database, was replaced.",
  },
  "bridge.protocol_violated": {
    status: 502,
    retry: "never",
    hint: "The program that answers in the sandbox does not speak Berth's protocol, or was tampered with: remove the sandbox.",
  },
  "bridge.limit_exceeded": {
    status: 502,
    retry: "never",
    hint: "The sandbox sent more than any supervisor sends, so it was tampered with: remove it.",
  },
  "bridge.wrong_number": {
    status: 502,
    retry: "never",
    hint: "The sandbox's events do not follow each other, so it was tampered with: remove it.",
  },
  "bridge.foreign_id": {
    status: 502,
    retry: "never",
    hint: "The sandbox named things of another sandbox, so it was tampered with: remove it.",
  },
  "bridge.store_failed": {
    status: 500,
    retry: "later",
    hint: "The server could not store the sandbox's events; they are kept in the sandbox and sent again.",
  },
  "bridge.token_unusable": {
    status: 500,
    retry: "never",
    hint: "The sandbox's token must be a file of 32 to 512 printable characters that only its owner may read.",
  },
  "bridge.listen_failed": {
    status: 500,
    retry: "never",
    hint: "The supervisor could not listen on its socket; the details name it and the system's own words.",
  },
  "repo.not_of_workspace": {
    status: 403,
    retry: "never",
    hint: "A sandbox gets the repos of its own workspace alone, at the ref that stands there: add the repo to the workspace.",
  },
  "repo.host_unusable": {
    status: 409,
    retry: "never",
    hint: "Name a git repo on the host that its owner can read; the details say what is wrong with this one.",
  },
  "repo.local_refused": {
    status: 409,
    retry: "never",
    hint: "Git refused this in the repo on your machine, in the words above; nothing was changed there.",
  },
  "repo.uncommitted_refused": {
    status: 409,
    retry: "never",
    hint: "The sandbox is there without them. Commit them and fetch inside, or make a new workspace with --name and --dirty.",
  },
  "repo.bundle_failed": {
    status: 500,
    retry: "later",
    hint: "A repo of the host could not be brought into the sandbox; the words of git or of the system are in the details.",
  },
  "repo.promisor_failed": {
    status: 502,
    retry: "later",
    hint: "Run `git fetch` in the repo as its owner: where that asks for a password, let a credential helper or an ssh agent have it. Or complete the clone: `git fetch --refetch --no-filter`, then `git repack -a -d`.",
  },
  "credentials.refused": {
    status: 403,
    retry: "never",
    hint: "A sandbox gets credentials for the repos of its own workspace alone: add the repo to the workspace.",
  },
  "credentials.none": {
    status: 404,
    retry: "later",
    hint: "Log in to that host with git, as the user that runs the server and with a credential helper that keeps it; `git credential fill` shows what git has.",
  },
  "journal.disk_full": {
    status: 507,
    retry: "later",
    hint: "Free space on the disk that holds the data directory; the sandbox goes on by itself then.",
  },
  "journal.io": {
    status: 500,
    retry: "never",
    hint: "The file system refused: look at the host's kernel log and at the disk's health.",
  },
  "journal.damaged": {
    status: 500,
    retry: "never",
    hint: "A file of the sandbox's journal was changed from outside, or the disk is failing; it was left as it is.",
  },
  "journal.event_too_large": {
    status: 413,
    retry: "never",
    hint: "One event may not hold that much; the details name the limit.",
  },
  "journal.not_held": {
    status: 409,
    retry: "never",
    hint: "The events asked for were acknowledged and dropped, or never recorded.",
  },
  "journal.closed": { status: 503, retry: "never", hint: "The sandbox is going down." },
  "boot.plan_unusable": {
    status: 500,
    retry: "never",
    hint: "The server and the sandbox's supervisor may be of different versions: `berth toolbox build`, then make the sandbox anew.",
  },
  "boot.failed": {
    status: 500,
    retry: "never",
    hint: "`berth boot`, with the name of the workspace, shows which step failed and what it wrote last. As long as `berth ps` lists the sandbox as failed, look with `berth shell` or `berth exec` and mend its files there; then `berth up --retry`.",
  },
  "agent.not_installed": {
    status: 424,
    retry: "never",
    hint: "Install the agent's program in the sandbox's image, or in the repo's .berth/setup.sh, and name it by its path in the workspace.",
  },
  "agent.key_missing": {
    status: 424,
    retry: "never",
    hint: "Give the server the key that the details name, in the file of keys that `berth config` shows.",
  },
  "agent.keys_unusable": {
    status: 424,
    retry: "never",
    hint: "Correct the file of keys as the details say. It has lines NAME=value, and mode 600; `berth config` shows where it is.",
  },
  "agent.unheld": {
    status: 422,
    retry: "never",
    hint: "Say `--permissions allow`, since the agent is bounded by its sandbox; or remove what lets it act unasked; or name, over HTTP, the `mode` in which an agent of your own asks.",
  },
  "agent.not_set_up": {
    status: 424,
    retry: "never",
    hint: "Name the model with `--model` and the key of its provider with `--key NAME`; the server has its keys in the file that `berth config` shows.",
  },
  "agent.changed": {
    status: 409,
    retry: "never",
    hint: "The workspace has another agent since this session began: open a new session.",
  },
  "session.unknown": {
    status: 404,
    retry: "never",
    hint: "Check the id; `berth sessions` lists the existing sessions.",
  },
  "session.closed": {
    status: 409,
    retry: "never",
    hint: "The session takes no more prompts, and its log can still be read: open a new session to go on.",
  },
  "session.busy": {
    status: 409,
    retry: "later",
    hint: "Wait for the prompt to end, or stop it first: `berth sessions rm` does that with --force.",
  },
  "session.full": {
    status: 429,
    retry: "later",
    hint: "The session's queue of prompts is full: send the next prompt when one has ended.",
  },
  "events.too_many": {
    status: 429,
    retry: "later",
    hint: "Close some of the event streams that are open; the details name the limit.",
  },
  "session.nothing_asked": {
    status: 404,
    retry: "never",
    hint: "The agent does not wait for this answer, or not any more; its events say what it asks.",
  },
  "prompt.unknown": {
    status: 404,
    retry: "never",
    hint: "Check the id; `berth log`, with the session, shows its prompts.",
  },
  "prompt.key_used": {
    status: 409,
    retry: "never",
    hint: "A prompt with this key and another content was accepted before: use a new key for a new prompt.",
  },
  "prompt.overdue": {
    status: 504,
    retry: "never",
    hint: "The prompt did not end within its deadline and was stopped; give it more time, or less to do.",
  },
  "agent.unavailable": {
    status: 503,
    retry: "later",
    hint: "The agent is not running right now: its last output is in the sandbox's boot trace and log.",
  },
  "agent.failed": {
    status: 502,
    retry: "later",
    hint: "The agent's own words say why: check the model, the provider and the keys that its configuration names.",
  },
  "boot.graph_invalid": {
    status: 500,
    retry: "never",
    hint: "This is a defect in Berth: the boot steps contradict each other as the details say; please report it.",
  },
  "process.start_failed": {
    status: 500,
    retry: "later",
    hint: "Check that the command and its working directory exist in the sandbox and that its user may use them.",
  },
  "process.not_found": {
    status: 404,
    retry: "never",
    hint: "Check the program's name: the sandbox has its own PATH, and runs no shell unless one is named.",
  },
  "process.no_directory": {
    status: 404,
    retry: "never",
    hint: "Check the directory: a relative one is below the workspace.",
  },
  "process.denied": {
    status: 403,
    retry: "never",
    hint: "The sandbox's user may not run that there: check that it is a program, and its mode and that of the directory.",
  },
  "process.given_up": {
    status: 500,
    retry: "never",
    hint: "The process kept failing; its last output stands in the details.",
  },
  "process.stopped": {
    status: 409,
    retry: "never",
    hint: "The process was asked to end, so it does not start or become ready any more.",
  },
  "commands.unknown": {
    status: 404,
    retry: "never",
    hint: "The command has ended and its record is gone, or it runs for another client alone: `berth commands`, with the sandbox, lists the commands.",
  },
  "commands.too_many": {
    status: 429,
    retry: "later",
    hint: "Wait for some of the sandbox's commands to end, or end them: `berth commands` lists them; the details name the limit.",
  },
  "terminals.unknown": {
    status: 404,
    retry: "never",
    hint: "The terminal was removed, or has ended and its record is gone: list the terminals.",
  },
  "terminals.too_many": {
    status: 429,
    retry: "later",
    hint: "End some of the sandbox's terminals, or close some of their viewers; the details name the limit.",
  },
  "ports.refused": {
    status: 502,
    retry: "later",
    hint: "Nothing in the sandbox takes connections on that port: list the ports to see what does.",
  },
  "ports.too_many": {
    status: 429,
    retry: "later",
    hint: "Close some of the connections to the sandbox's ports; the details name the limit.",
  },
  "host_port.refused": {
    status: 403,
    retry: "never",
    hint: "A sandbox reaches those ports of the host that its workspace names (`--host-port`): from 1024 on, and never Berth's own.",
  },
  "host_port.unreachable": {
    status: 502,
    retry: "later",
    hint: "Start the program that should listen on that port of 127.0.0.1, on the server's machine.",
  },
  "git.no_repo": {
    status: 404,
    retry: "never",
    hint: "Name a directory of a git repo in the sandbox; a relative one is below the workspace.",
  },
  "git.nothing_to_commit": {
    status: 409,
    retry: "never",
    hint: "None of the named files has changed: the repo's status lists the changes.",
  },
  "hook.failed": {
    status: 500,
    retry: "never",
    hint: "The hook's last output says what went wrong: correct the script in the repo, and boot again.",
  },
  "hook.refused": {
    status: 500,
    retry: "never",
    hint: "A hook must be a file of the repo: put the script itself there, or a link to another file of the same repo.",
  },
  "agent_files.incomplete": {
    status: 500,
    retry: "never",
    hint: "Nothing was linked or copied. The toolbox lacks what the details name: `berth toolbox verify` tells what changed, and `berth toolbox build` makes it anew.",
  },
  "agent_files.failed": {
    status: 500,
    retry: "later",
    hint: "The changes were undone. The details hold the system's own words: check that the user's home is writable and has space.",
  },
  "files.not_found": {
    status: 404,
    retry: "never",
    hint: "Check the path: a relative one is below the workspace.",
  },
  "files.exists": {
    status: 409,
    retry: "never",
    hint: "Something lies there already, and nothing was overwritten: remove it first, or choose another name.",
  },
  "files.wrong_kind": {
    status: 409,
    retry: "never",
    hint: "The details say what lies at that path: this can be done only with a file, or only with a directory.",
  },
  "files.denied": {
    status: 403,
    retry: "never",
    hint: "The sandbox's user may not do that there: check the owner and the mode, or run a command as root.",
  },
  "files.disk_full": {
    status: 507,
    retry: "later",
    hint: "The earlier contents are unchanged. Free space on the disk that holds the sandbox's files.",
  },
  "files.range_unsatisfiable": {
    status: 416,
    retry: "never",
    hint: "Ask for bytes that the file has; the details name its size.",
  },
  "files.archive_refused": {
    status: 400,
    retry: "never",
    hint: "Send an uncompressed tar archive whose entries stay in the folder. The entries before the one that the details name were unpacked.",
  },
  "files.watch_limit": {
    status: 503,
    retry: "never",
    hint: "Watch a smaller folder, leave out folders with many others in them, or raise fs.inotify.max_user_watches on the host.",
  },
  "files.failed": {
    status: 500,
    retry: "later",
    hint: "The file system refused; its own words are in the details.",
  },
  "files.unavailable": {
    status: 503,
    retry: "now",
    hint: "The process that works with files ended before it had answered; the next call starts it again.",
  },
  "copy.names_clash": {
    status: 409,
    retry: "never",
    hint: "The second of the two files and all after it were not copied. Rename one of the two in the sandbox, or copy the one that you need by its own path.",
  },
  "copy.incomplete": {
    status: 409,
    retry: "never",
    hint: "All other files were copied. Give the sandbox's user the right to read the rest, or copy it as root, with `tar` under `berth exec --user root`.",
  },
  "copy.too_large": {
    status: 413,
    retry: "never",
    hint: "Copy a part of the folder: a folder further below, or single files. The details name the limit.",
  },
  "copy.no_room": {
    status: 507,
    retry: "never",
    hint: "Free space on this machine, choose a destination on another disk, or look at the size in the sandbox: a file can say that it is larger than it is.",
  },
  "repo.unreachable": {
    status: 503,
    retry: "later",
    hint: "Check that the repo's host is up, and that the workspace's network policy lets the sandbox reach it.",
  },
  "repo.auth_failed": {
    status: 403,
    retry: "never",
    hint: "Let git on the host know credentials for this repo (`git credential approve`): the sandbox asks for them; those in a URL are not used.",
  },
  "repo.not_found": {
    status: 404,
    retry: "never",
    hint: "Check the repo's URL; many hosts say the same of a private repo that the credentials do not reach.",
  },
  "repo.ref_unknown": {
    status: 404,
    retry: "never",
    hint: "Check the ref's name: a branch, a tag, a commit's id, or a full ref such as refs/pull/7/head.",
  },
  "repo.directory_taken": {
    status: 409,
    retry: "never",
    hint: "Something else lies where the repo belongs, and nothing is overwritten: move it away, or give the repo another directory.",
  },
  "repo.disk_full": {
    status: 507,
    retry: "later",
    hint: "Free space on the disk that holds the workspace.",
  },
  "repo.git_failed": {
    status: 500,
    retry: "later",
    hint: "Git's own last words are in the message, and more of them in the step's last output.",
  },
  "toolbox.input_missing": {
    status: 500,
    retry: "later",
    hint: "Nothing was built. Run `npm install`, `npm run build` and `scripts/system-deps`: they bring every part of the toolbox.",
  },
  "toolbox.agent_not_installed": {
    status: 424,
    retry: "never",
    hint: "An agent is fetched by npm when it is first used: give the server's host a registry that it reaches (`npm config get registry`), and try again with `berth toolbox build --agent NAME`. Without a network, copy the folder agents/ from the data directory of a host that has it.",
  },
  "toolbox.preparing": {
    status: 503,
    retry: "later",
    hint: "The work goes on, and the next try is told how far it is: a toolbox is built for the first sandbox, and an agent is installed when it is first used.",
  },
  "toolbox.input_refused": {
    status: 500,
    retry: "never",
    hint: "Nothing was built. The details name the part and what a toolbox cannot carry of it.",
  },
  "toolbox.input_changed": {
    status: 409,
    retry: "now",
    hint: "Nothing was built: a part changed while it was copied. Build again when the installation has ended.",
  },
  "toolbox.unknown": {
    status: 404,
    retry: "never",
    hint: "`berth toolbox ls` lists the existing toolboxes, and `berth toolbox build` makes the current one.",
  },
  "toolbox.changed": {
    status: 500,
    retry: "never",
    hint: "The toolbox is not used any more: `berth toolbox build` makes it anew, `berth toolbox verify` lists the changes.",
  },
  "toolbox.disk_full": {
    status: 507,
    retry: "later",
    hint: "Nothing was built. Free space on the disk that holds the data directory.",
  },
  "toolbox.io": {
    status: 500,
    retry: "later",
    hint: "The file system refused; its own words are in the details.",
  },
} as const satisfies Record<string, ErrorEntry>

export type ErrorCode = keyof typeof ERRORS

export type ErrorDetails = Readonly<Record<string, unknown>>

/** An error as it travels over HTTP and the bridge. */
export interface WireError {
  readonly code: ErrorCode
  readonly message: string
  readonly hint: string
  readonly retry: Retry
  readonly details: ErrorDetails
}

/** The one error type. `details` say what failed on what; `cause` keeps the original. */
export class BerthError extends Error {
  override readonly name = "BerthError"
  readonly code: ErrorCode
  readonly details: ErrorDetails

  constructor(
    code: ErrorCode,
    message: string,
    { details = {}, cause }: { details?: ErrorDetails; cause?: unknown } = {},
  ) {
    super(message, cause === undefined ? {} : { cause })
    this.code = code
    this.details = details
  }

  get status(): number {
    return ERRORS[this.code].status
  }

  get retry(): Retry {
    return ERRORS[this.code].retry
  }

  get hint(): string {
    return ERRORS[this.code].hint
  }

  toJSON(): WireError {
    const { code, message, hint, retry, details } = this
    return { code, message, hint, retry, details }
  }
}

/** The wire error of anything that was thrown. If it is no BerthError, the wire error tells only that it happened. */
export const toWireError = (thrown: unknown): WireError =>
  thrown instanceof BerthError
    ? thrown.toJSON()
    : new BerthError("internal", "unexpected failure", { cause: thrown }).toJSON()
