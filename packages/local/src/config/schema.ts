import { Duration } from "@berth/protocol/duration"
import { Size } from "@berth/protocol/size"
import { ImageReference } from "@berth/protocol/workspace"
import { z } from "zod"
import type { Directories } from "./directories.ts"
import { parseEngineAddress } from "./engine-address.ts"

/** The facts about a key for refusals, flags and `berth config`, kept beside its type. */
interface KeyFacts {
  readonly description: string
  /** The allowed values, as a person would say it. */
  readonly allowed: string
  readonly defaultValue: (directories: Directories) => unknown
  /** A secret is never shown, and never taken from a flag: every user of the machine can see a process's flags. */
  readonly secret?: boolean
  /** The value is a path: resolved against the working directory, or the directory of the file that names it. */
  readonly path?: boolean
}

const facts = z.registry<KeyFacts>()

const DEFAULT_PORT = 7766
const HOSTS = ["127.0.0.1", "::1", "localhost"] as const
const LOG_LEVELS = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const
const BACKENDS = ["embedded", "docker"] as const
/**
 * The default image has git, certificates and the tools that build most programs; it is pulled when it is first needed.
 */
const DEFAULT_IMAGE = "buildpack-deps:bookworm"

/**
 * The default idle times. Pausing costs nothing that anybody notices, so it comes soon; a stop ends processes, so it
 * comes late. People look at a failed boot soon or not at all.
 */
export const DEFAULT_IDLE = {
  idlePause: Duration.parse("10m"),
  idleStop: Duration.parse("24h"),
  failedBootKeep: Duration.parse("15m"),
}

const DEFAULT_KEEP_EVENTS = Duration.parse("90d")

/** Long enough to read the agent's work, and shorter than clients wait for a workspace that has changed. */
const DEFAULT_SESSION_KEEP = Duration.parse("3m")

const oneOf = (values: readonly string[]) => `one of ${values.join(", ")}`

/** Characters that need no quoting in a header, a shell or a URL. */
export const ApiToken = z.string().regex(/^[A-Za-z0-9_-]{16,256}$/)

/** Converts text to a number: flags and environment variables are text, while the file has numbers. */
const wholeNumber = (value: unknown) =>
  typeof value === "string" && /^\d{1,9}$/.test(value) ? Number(value) : value

/** Converts 0 to text: YAML reads it as a number. */
const zero = (value: unknown) => (value === 0 ? "0" : value)

const IDLE_ALLOWED = "a whole number with s, m, h or d, such as 90s or 2h; 0 for never"

/** Every key of Berth's configuration: the only place that names them. */
export const Config = z.strictObject({
  dataDir: z
    .string()
    .regex(/^[^\0]+$/)
    .register(facts, {
      description: "Directory that holds the database, the API token and the sandboxes' files",
      allowed: "a path",
      defaultValue: ({ state }) => state,
      path: true,
    }),
  host: z.enum(HOSTS).register(facts, {
    description: "Address that the API listens on",
    allowed: `a loopback address, as the API is for this machine only: ${oneOf(HOSTS)}`,
    defaultValue: () => "127.0.0.1",
  }),
  port: z.preprocess(wholeNumber, z.number().int().min(0).max(65_535)).register(facts, {
    description: "Port that the API listens on; 0 lets the system choose one",
    allowed: "a whole number from 0 to 65535",
    defaultValue: () => DEFAULT_PORT,
  }),
  logLevel: z.enum(LOG_LEVELS).register(facts, {
    description: "Least level that is logged",
    allowed: oneOf(LOG_LEVELS),
    defaultValue: () => "info",
  }),
  backend: z.enum(BACKENDS).register(facts, {
    description: "What makes the sandboxes",
    allowed: oneOf(BACKENDS),
    defaultValue: () => "embedded",
  }),
  engine: z
    .string()
    .refine((address) => parseEngineAddress(address) !== undefined)
    .optional()
    .register(facts, {
      description: "Engine of the backend docker; without it, the one that $DOCKER_HOST names",
      allowed: "unix:///PATH or tcp://HOST:PORT",
      defaultValue: () => undefined,
    }),
  image: ImageReference.register(facts, {
    description: "Image of sandboxes whose workspace names none, where the backend needs one",
    allowed: "an image's name, with its tag or digest",
    defaultValue: () => DEFAULT_IMAGE,
  }),
  idlePause: z.preprocess(zero, Duration).register(facts, {
    description: "Time without a use after which a sandbox is paused; the next use wakes it",
    allowed: IDLE_ALLOWED,
    defaultValue: () => DEFAULT_IDLE.idlePause,
  }),
  idleStop: z.preprocess(zero, Duration).register(facts, {
    description: "Time without a use after which a sandbox is stopped; its files are kept",
    allowed: IDLE_ALLOWED,
    defaultValue: () => DEFAULT_IDLE.idleStop,
  }),
  failedBootKeep: z.preprocess(zero, Duration).register(facts, {
    description: "Time for which a sandbox whose boot failed stays up to be looked at",
    allowed: "a whole number with s, m, h or d, such as 15m; 0 for none",
    defaultValue: () => DEFAULT_IDLE.failedBootKeep,
  }),
  diskLimit: z.preprocess(zero, Size).register(facts, {
    description: "The most that the files of a workspace may take that says nothing of it",
    allowed: "a whole number with M, G or T, such as 500M or 20G; 0 for as much as there is",
    defaultValue: () => Size.parse("0"),
  }),
  sessionKeep: z.preprocess(zero, Duration).register(facts, {
    description: "Time after a session's last prompt for which its sandbox counts as used",
    allowed: "a whole number with s, m, h or d, such as 3m; 0 for none",
    defaultValue: () => DEFAULT_SESSION_KEEP,
  }),
  keepEvents: z.preprocess(zero, Duration).register(facts, {
    description: "Time for which what happened in sessions is kept",
    allowed: "a whole number with s, m, h or d, such as 90d; 0 for ever",
    defaultValue: () => DEFAULT_KEEP_EVENTS,
  }),
  keysFile: z
    .string()
    .regex(/^[^\0]+$/)
    .optional()
    .register(facts, {
      description:
        "File of the keys that agents may get; without it, keys.env in the data directory",
      allowed: "a path to a file of lines NAME=value",
      defaultValue: () => undefined,
      path: true,
    }),
  group: z
    .string()
    .regex(/^[A-Za-z_][\w.-]{0,63}$/)
    .optional()
    .register(facts, {
      description:
        "Group whose members may use the server; each of them can then do on this machine what the server can",
      allowed: "the name of a group of this machine",
      defaultValue: () => undefined,
    }),
  token: ApiToken.optional().register(facts, {
    description: "API token to use instead of the one that is kept in the data directory",
    allowed: "16 to 256 of A–Z, a–z, 0–9, - and _",
    defaultValue: () => undefined,
    secret: true,
  }),
})
export type Config = z.infer<typeof Config>
export type ConfigKey = keyof Config

/** A key with its type and its facts. */
export interface KeyEntry extends KeyFacts {
  readonly name: ConfigKey
  readonly type: z.ZodType
}

export const KEYS: readonly KeyEntry[] = Object.entries(Config.shape).map(([name, type]) => {
  const known = facts.get(type)
  if (known === undefined) throw new Error(`configuration key without facts: ${name}`)
  return { ...known, name: name as ConfigKey, type }
})
