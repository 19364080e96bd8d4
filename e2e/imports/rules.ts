/**
 * Which package and which folder may import which. These are all rules: `check.ts` only applies them.
 *
 * ```
 * web ─► sdk ─► protocol ◄─ local ◄─ host        server: main ─► api ─► sessions ─► sandboxes ─► @berth/backends, layers, toolbox
 * cli ─► sdk, local   ▲                                    │                └─────► events             (store below all)
 *                     │                                    └─► start-sandboxes ─► bridges ─► @berth/bridge
 *                     └────── supervisor         supervisor: supervise ─► boot ─► agents, repos, agent-files ─► processes
 *                                                              supervise ─► bridge ─► agents, journal
 *
 * host ◄─ layers, toolbox, bridge, backends ◄─ server
 * ```
 */

export interface PackageRule {
  /** The packages of this project that its source and its tests may import, by any file. A place may import further ones. */
  readonly imports: readonly string[]
  /** Single modules of other packages, loaded by `import()` only. */
  readonly onDemand?: readonly string[]
  /**
   * The files that only Node loads in a package that runs in browsers too, each with the packages that it may import
   * besides. They may import Node's own modules.
   */
  readonly onNode?: Readonly<Record<string, readonly string[]>>
  /** Whether the package runs in browsers too, and so imports Node's own modules only in the files of `onNode`. */
  readonly browser: boolean
  /**
   * The places that each place may import besides itself. A place is a folder or a file directly in `src`;
   * `agents/*` stands for each folder in `agents` without a row of its own, which are strangers to each
   * other, and `agents` then for the files beside them; `*.ts` stands for the files directly in `src` that have
   * no row of their own; `@berth/NAME` is another package, for that place alone and for tests. `"flat"` is a package
   * without folders.
   */
  readonly places: PlaceRules | "flat"
}

export type PlaceRules = Readonly<Record<string, readonly string[]>>

/** Importable from every place in the server. */
const BELOW_ALL = ["store", "logging"]

/** The rooms of the server's `sandboxes`, from the top to the bottom: each imports only those below it. */
const SANDBOX_ROOMS = [
  ...["requests", "deciding", "making", "keeping", "files", "disk", "use", "state"].map(
    (room) => `sandboxes/${room}`,
  ),
]

/**
 * The folders of `layers`, from the top to the bottom: each imports only those below it. The files beside
 * them are the operations that join them.
 */
const LAYER_FOLDERS = [
  ...["verify", "collect", "archive", "pins", "tops", "stacks", "claims", "store", "trees", "tar"],
  ...["records", "io"],
]

/** The package that serves the tests of every package, and nothing else. */
export const TESTING = "testing"

const PACKAGES: Readonly<Record<string, PackageRule>> = {
  protocol: { imports: [], browser: true, places: "flat" },

  local: {
    imports: ["protocol"],
    browser: false,
    places: { "*.ts": ["config", "owned"], config: ["owned"], owned: [] },
  },

  [TESTING]: { imports: [], browser: false, places: "flat" },

  web: { imports: ["sdk", "protocol"], browser: true, places: "flat" },

  sdk: {
    imports: ["protocol"],
    // A server is looked for on the disk, which browsers have not.
    onNode: { "node.ts": ["local"], "node-fetch.ts": [] },
    browser: true,
    places: { node: ["node-fetch", "*.ts"], "node-fetch": [], "*.ts": [] },
  },

  cli: {
    imports: ["sdk", "local", "protocol"],
    // A server starts on the machine where `berth serve` is typed: the host commands load it when they run.
    onDemand: ["@berth/server/main"],
    browser: false,
    places: {
      main: ["run", "*.ts"],
      bundled: ["run", "*.ts"],
      run: ["run-command", "overview", "*.ts"],
      "run-command": ["overview", "commands", "*.ts"],
      overview: ["commands", "*.ts"],
      commands: ["*.ts"],
      "*.ts": [],
    },
  },

  supervisor: {
    imports: ["protocol"],
    browser: false,
    places: {
      main: ["run", "bridge"],
      loader: [],
      run: ["supervise", "processes"],
      supervise: ["tend", "bridge", "processes", "*.ts"],
      checks: [],
      tend: [
        ...["boot", "bridge", "choose-agent", "agents", "load-features", "features", "journal"],
        "processes",
        "*.ts",
      ],
      "choose-agent": ["agents", "agents/*"],
      boot: ["agents", "repos", "agent-files", "processes"],
      repos: ["processes"],
      "agent-files": ["agents", "processes"],
      bridge: ["agents", "repos", "features", "journal", "checks", "processes"],
      agents: ["processes"],
      "agents/*": ["agents", "processes"],
      "web-terminal": ["pty", "processes"],
      pty: ["processes"],
      "load-features": ["features", "commands", "files", "terminals", "ports", "git", "activity"],
      features: ["checks", "processes", "*.ts"],
      commands: ["features", "checks", "processes", "*.ts"],
      files: ["features", "checks", "processes", "*.ts"],
      terminals: ["features", "pty", "checks", "processes", "*.ts"],
      ports: ["features", "checks", "processes", "*.ts"],
      git: ["features", "files", "repos", "checks", "processes", "*.ts"],
      activity: ["features", "processes"],
      journal: ["processes"],
      processes: [],
      "*.ts": ["checks"],
    },
  },

  host: {
    imports: ["protocol", "local"],
    browser: false,
    places: {
      mounts: ["*.ts"],
      "*.ts": ["cgroups"],
      cgroups: [],
    },
  },

  layers: {
    imports: ["protocol", "host"],
    browser: false,
    places: {
      "*.ts": LAYER_FOLDERS,
      ...Object.fromEntries(
        LAYER_FOLDERS.map((folder, at) => [folder, LAYER_FOLDERS.slice(at + 1)]),
      ),
    },
  },

  toolbox: {
    imports: ["protocol", "local", "host"],
    browser: false,
    places: {
      agents: ["*.ts", "inputs"],
      "*.ts": ["inputs"],
      inputs: [],
    },
  },

  bridge: {
    imports: ["protocol", "host"],
    browser: false,
    places: "flat",
  },

  backends: {
    imports: ["protocol", "local", "host"],
    browser: false,
    places: {
      docker: ["*.ts", "connections", "seccomp"],
      embedded: ["*.ts", "connections", "seccomp"],
      "*.ts": [],
      connections: [],
      seccomp: [],
    },
  },

  server: {
    imports: ["protocol", "local", "host"],
    browser: false,
    places: {
      main: [
        ...["start-sandboxes", "open-backend", "api", "sessions", "sandboxes", "@berth/bridge"],
        ...["@berth/layers", "@berth/toolbox", "doctor", "@berth/backends", "events", "repos"],
        ...["keys", ...SANDBOX_ROOMS, ...BELOW_ALL],
      ],
      "start-sandboxes": [
        ...["open-backend", "open-own-layers", "sessions", "sandboxes", "@berth/backends"],
        ...["@berth/layers", "bridges", "keys", ...SANDBOX_ROOMS, ...BELOW_ALL],
      ],
      "open-own-layers": ["@berth/backends", "@berth/layers", "sandboxes/disk", ...BELOW_ALL],
      standalone: [
        ...["open-backend", "sessions", "sandboxes", "@berth/backends", "@berth/layers", "bridges"],
        ...["keys", "repos", "@berth/toolbox", ...SANDBOX_ROOMS, ...BELOW_ALL],
      ],
      bridges: ["@berth/bridge", "sandboxes/keeping", "sandboxes/state"],
      "open-backend": ["@berth/backends", ...BELOW_ALL],
      api: ["sessions", "sandboxes", "sandboxes/requests", "events", "doctor", ...BELOW_ALL],
      sessions: [
        ...["sandboxes", "sandboxes/requests", "sandboxes/keeping", "sandboxes/state", "events"],
        ...["keys", ...BELOW_ALL],
      ],
      sandboxes: [
        ...[...SANDBOX_ROOMS, "@berth/backends", "@berth/layers", "certificates", ...BELOW_ALL],
      ],
      "sandboxes/requests": [
        ...["sandboxes/deciding", "sandboxes/making", "sandboxes/keeping", "sandboxes/files"],
        ...["sandboxes/disk", "sandboxes/use", "sandboxes/state", "@berth/backends", ...BELOW_ALL],
      ],
      "sandboxes/deciding": [
        ...["sandboxes/making", "sandboxes/keeping", "sandboxes/files", "sandboxes/disk"],
        ...["sandboxes/use", "sandboxes/state", "@berth/backends", "@berth/layers", ...BELOW_ALL],
      ],
      "sandboxes/making": [
        ...["sandboxes/keeping", "sandboxes/files", "sandboxes/use", "sandboxes/state"],
        ...["@berth/backends", "@berth/layers", "@berth/toolbox", "repos", "host-ports", "keys"],
        ...["certificates", ...BELOW_ALL],
      ],
      "sandboxes/keeping": [
        ...["sandboxes/use", "sandboxes/state", "@berth/backends", "repos", "host-ports", "keys"],
        ...BELOW_ALL,
      ],
      "sandboxes/files": [
        ...["sandboxes/disk", "sandboxes/use", "sandboxes/state", "@berth/backends"],
        ...["@berth/layers", ...BELOW_ALL],
      ],
      "sandboxes/disk": ["sandboxes/state", "@berth/backends", ...BELOW_ALL],
      "sandboxes/use": ["sandboxes/state", ...BELOW_ALL],
      "sandboxes/state": ["repos", ...BELOW_ALL],
      "sandboxes/*": [],
      repos: BELOW_ALL,
      "host-ports": BELOW_ALL,
      events: BELOW_ALL,
      keys: BELOW_ALL,
      certificates: [],
      store: ["logging"],
      logging: [],
      doctor: ["doctor/checks", "doctor/tools", "doctor/engine", "doctor/cgroups"],
      "doctor/checks": ["doctor/tools", "doctor/engine", "doctor/cgroups", "certificates"],
      "doctor/engine": ["doctor/tools"],
      "doctor/cgroups": ["doctor/tools"],
      "doctor/tools": [],
      "doctor/*": [],
    },
  },
}

/** Folders beside the packages: they use every package from outside, by its name. */
const OUTSIDE = ["e2e", "bench", "scripts"]

/** The scope of this project's packages, such as `@berth/server`. */
export const SCOPE = "@berth/"

export interface Rules {
  readonly packages: Readonly<Record<string, PackageRule>>
  readonly outside: readonly string[]
}

export const RULES: Rules = { packages: PACKAGES, outside: OUTSIDE }
