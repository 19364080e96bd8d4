import type { DoctorCheckName, DoctorFinding } from "@berth/protocol/doctor"

export type BackendName = "embedded" | "docker"

/** What the checks look at. Passed in, so that a check never reads the environment itself. */
export interface DoctorHost {
  /** Where tools are looked for, in the form of $PATH. */
  readonly path: string
  /** Where the server keeps its files; it need not exist yet. */
  readonly dataDir: string
  /** The variables that the server would have. Default: none. */
  readonly environment?: Readonly<Record<string, string | undefined>>
  /** Where the engine listens, as $DOCKER_HOST says it, if the caller knows. */
  readonly dockerHost?: string
  /** The backend that is configured. Default: embedded. */
  readonly backend?: BackendName
}

/** One question to the host. `probe` may throw: that becomes a finding. It leaves nothing behind. */
export interface Check {
  readonly name: DoctorCheckName
  readonly why: string
  /** The backend that alone needs it: with another one, its lack costs nothing that is used. */
  readonly onlyFor?: BackendName
  probe(host: DoctorHost, signal: AbortSignal): Promise<DoctorFinding>
}
