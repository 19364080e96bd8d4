import type { LoadedConfig } from "./load.ts"
import { flagName, variableName } from "./names.ts"
import { HIDDEN } from "./problem.ts"
import { type ConfigKey, KEYS } from "./schema.ts"

/** An effective value as it may be shown: a secret's is masked. */
export interface ShownValue {
  readonly key: ConfigKey
  /** Null when no value was given and there is no default. */
  readonly value: string | number | null
  readonly origin: string
}

export const showConfig = ({ config, origins }: LoadedConfig): ShownValue[] =>
  KEYS.map(({ name, secret }) => {
    const value = config[name] ?? null
    return {
      key: name,
      value: secret === true && value !== null ? HIDDEN : value,
      origin: origins[name],
    }
  })

/** The ways to give a key, for help texts. */
export interface KeyHelp {
  readonly key: ConfigKey
  /** Absent for a secret, which is never taken from a flag. */
  readonly flag?: string
  readonly variable: string
  readonly description: string
  readonly allowed: string
}

export const describeKeys = (): KeyHelp[] =>
  KEYS.map(({ name, secret, description, allowed }) => ({
    key: name,
    ...(secret === true ? {} : { flag: flagName(name) }),
    variable: variableName(name),
    description,
    allowed,
  }))
