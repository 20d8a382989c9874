import tseslint from 'typescript-eslint';

const ambientInCore = [
  ['Date', 'take the time as an argument'],
  ['setTimeout', 'core is synchronous'],
  ['setInterval', 'core is synchronous'],
  ['setImmediate', 'core is synchronous'],
  ['queueMicrotask', 'core is synchronous'],
  ['performance', 'take the time as an argument'],
  ['process', 'core reads no environment'],
  ['console', 'core reports by return value'],
  ['crypto', 'take randomness as an argument'],
  ['fetch', 'core does no I/O'],
].map(([name, message]) => ({ name, message }));

export default tseslint.config(
  { ignores: ['node_modules', 'cdk.out', '.sluice', 'coverage'] },
  ...tseslint.configs.recommendedTypeChecked,
  {
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    linterOptions: { reportUnusedDisableDirectives: 'error' },
    rules: {
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/no-misused-promises': 'error',
      '@typescript-eslint/switch-exhaustiveness-check': ['error', { considerDefaultExhaustiveForUnions: true }],
      '@typescript-eslint/consistent-type-imports': 'error',
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
      '@typescript-eslint/prefer-promise-reject-errors': 'error',
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true, allowBoolean: true }],
      eqeqeq: ['error', 'always'],
      'no-console': 'off',
    },
  },
  {
    files: ['lambdas/**/*.ts'],
    rules: { 'no-console': 'error' },
  },
  {
    files: ['lambdas/shared/core/**/*.ts', 'lambdas/shared/limits/**/*.ts'],
    rules: {
      'no-restricted-globals': ['error', { globals: ambientInCore, checkGlobalObject: true }],
      'no-restricted-properties': ['error', { object: 'Math', property: 'random', message: 'take randomness as an argument' }],
      'no-restricted-imports': [
        'error',
        {
          patterns: [
            { regex: '^node:(?!crypto$)', message: 'core is pure: only hashing from node:crypto' },
            { regex: '^node:crypto$', importNames: ['randomUUID', 'randomBytes', 'randomInt', 'webcrypto'], message: 'take randomness as an argument' },
            { regex: '^(@aws-sdk|undici|@aws-lambda-powertools|@middy)', message: 'core does no I/O' },
          ],
        },
      ],
    },
  },
  { files: ['**/*.mjs'], extends: [tseslint.configs.disableTypeChecked] },
);
