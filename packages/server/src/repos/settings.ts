export interface Setting {
  readonly key: string
  readonly value: string
}

/** The settings out of what `git config --null --get-regexp` says, in their order: of equal ones, the last counts. */
export const settingsIn = (listed: string): Setting[] =>
  listed.split("\0").map((entry) => {
    const [key = "", ...value] = entry.split("\n")
    return { key, value: value.join("\n") }
  })

export const lastSetting = (settings: readonly Setting[], key: string): string | undefined =>
  settings.findLast((setting) => setting.key === key)?.value
