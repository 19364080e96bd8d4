export interface Setting {
  readonly key: string
  readonly value: string
}

/** Parses the output of `git config --null --get-regexp`, in its order: of equal keys, the last counts. */
export const settingsIn = (listed: string): Setting[] =>
  listed.split("\0").map((entry) => {
    const [key = "", ...value] = entry.split("\n")
    return { key, value: value.join("\n") }
  })

export const lastSetting = (settings: readonly Setting[], key: string): string | undefined =>
  settings.findLast((setting) => setting.key === key)?.value
