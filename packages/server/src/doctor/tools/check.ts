import type { DoctorCheckName, DoctorFinding } from "@berth/protocol/doctor"

export type BackendName = "embedded" | "docker"

/** The host as the checks see it. Passed in, so that a check never reads the environment itself. */
export interface DoctorHost {
  /** The search path for tools, in the form of $PATH. */
  readonly path: string
  /** The server's data directory; it need not exist yet. */
  readonly dataDir: string
  /** The variables that the server would have. Default: none. */
  readonly environment?: Readonly<Record<string, string | undefined>>
  /** The engine's address, as $DOCKER_HOST says it, if the caller knows. */
  readonly dockerHost?: string
  /** The backend that is configured. Default: embedded. */
  readonly backend?: BackendName
}

/** A check of the host. `probe` may throw: that becomes a finding. It leaves nothing behind. */
export interface Check {
  readonly name: DoctorCheckName
  readonly why: string
  /** The only backend that needs the checked part: with another one, its lack costs nothing that is used. */
  readonly onlyFor?: BackendName
  probe(host: DoctorHost, signal: AbortSignal): Promise<DoctorFinding>
}
