import { homedir } from "node:os"
import { type LoadedConfig, loadConfig } from "./load.ts"

/** What was given on the command line. */
export interface HostOptions {
  /** By configuration key. */
  readonly flags: Readonly<Record<string, unknown>>
  readonly configFile?: string | undefined
}

/** The configuration of this process: what it was given, over the environment and the file of its user. */
export const configHere = ({ flags, configFile }: HostOptions): LoadedConfig =>
  loadConfig({
    flags,
    configFile,
    env: process.env,
    home: homedir(),
    isRoot: process.geteuid?.() === 0,
    workingDir: process.cwd(),
  })
